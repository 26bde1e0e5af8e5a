# setup.sh - shared parts of tests/run and scenarios/run: packages, configuration, build. Sourced,
# never run. Each function is quiet when nothing needs doing and ends the script with exit code 2
# when shardlab cannot be built as asked.
# shellcheck shell=bash

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

[ "${BASH_VERSINFO[0]}" -ge 5 ] || [ "${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}" = 4.4 ] || {
  echo "error: this bash is $BASH_VERSION; the scripts need 4.4 (macOS: brew install bash)" >&2
  exit 2
}

# Names of packages, one table for all package managers.
package_table=$repository/sim/doctor/packages.txt

# tests/support/unpack puts packages here for a user who is not root.
unpacked=$repository/build-packages

stop() {
  printf 'error: %s\n' "$@" >&2
  exit 2
}

readonly no_line='$.'  # a pattern that matches no line

# Runs a command, its output in a log that is shown when the command fails.
# usage: logged PATTERN EVERY COMMAND...   (progress: one in EVERY lines that match PATTERN)
logged() {
  local pattern=$1 every=$2 log status=0
  shift 2
  log=$(mktemp)
  "$@" </dev/null 2>&1 | tee "$log" |
    awk -v pattern="$pattern" -v every="$every" \
      '$0 ~ pattern && ++count % every == 0 { print; fflush() }' || status=$?
  [ "$status" -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# The prefix of apt-get here: "" as root, "sudo -n" if sudo asks for no password. Fails when
# packages cannot be installed from here.
apt_prefix() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -eq 0 ]; then
    echo ""
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "sudo -n"
  else
    return 1
  fi
}

install_packages() {
  local prefix
  if ! prefix=$(apt_prefix); then
    {
      echo "error: packages are missing and cannot be installed from here; type"
      echo
      echo "  sudo apt-get update && $(install_line apt "$@")"
      echo
      echo "or, without root, tests/support/unpack"
    } >&2
    exit 2
  fi
  echo "installing $*"
  local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
  # shellcheck disable=SC2206  # unquoted on purpose: the prefix is no word or two
  [ -z "$prefix" ] || apt=($prefix "${apt[@]}")
  # A stale or absent package list is the usual state of a bare machine. A failed update is tried
  # once more; the present lists may be enough, so that installing decides.
  logged '^Fetched' 1 "${apt[@]}" update || logged '^Fetched' 1 "${apt[@]}" update || true
  logged '^(Need to get|Fetched|Setting up)' 10 \
    "${apt[@]}" install -y --no-install-recommends "$@" ||
    stop "apt-get could not install: $*"
}

# The package manager of the system, by the file $1 (/etc/os-release) and the kernel's name $2; a
# conda environment that is active and not the base comes first. Fails if none is known.
package_manager() {
  local release=$1 kernel=$2 key id manager
  if [ -n "${CONDA_PREFIX:-}" ] && [ "${CONDA_DEFAULT_ENV:-}" != base ]; then
    echo conda
    return
  elif [ "$kernel" = Darwin ]; then
    echo brew
    return
  fi
  for key in ID ID_LIKE; do
    for id in $(sed -n "s/^$key=//p" "$release" 2>/dev/null | tr -d '"'); do
      manager=$(awk -v id="$id" '$1 == "system" {
        for (i = 3; i <= NF; ++i) if ($i == id) print $2 }' "$package_table")
      [ -z "$manager" ] || break 2
    done
  done
  [ -n "${manager:-}" ] && echo "$manager"
}

# The package manager $1's names of the packages for the use $2 ("build", "mpi"), one a line.
package_names() {
  awk -v manager="$1" -v use="$2" '
    $1 == "uses" { for (i = 2; i <= NF; ++i) if ($i == manager) column = i }
    $1 == use && $column != "-" { gsub(/[|]/, "\n", $column); print $column }' "$package_table"
}

# The command of the package manager $1 that installs; further arguments are packages.
install_line() {
  local manager=$1
  shift
  echo "$(awk -v manager="$manager" '$1 == "command" && $2 == manager {
    $1 = $2 = ""; sub(/^ +/, ""); print }' "$package_table") $*"
}

# Prints those of the packages that the package manager $1 does not have installed, one a line.
missing_from() {
  local manager=$1 package
  shift
  for package in "$@"; do
    case $manager in
      apt)
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
          grep -qsx -e "$package" "$unpacked/names"
        ;;
      dnf) rpm -q --whatprovides "$package" >/dev/null 2>&1 ;;
      pacman) pacman -T "$package" >/dev/null 2>&1 ;;
      brew) brew list --versions "$package" >/dev/null 2>&1 ;;
      conda) compgen -G "$CONDA_PREFIX/conda-meta/$package-[0-9]*.json" >/dev/null ;;
    esac || echo "$package"
  done
}

packages_came=  # not empty: a build folder that was configured before must look for them

# Without root, sudo or another way to install, the line to type is all there is. Arguments are uses
# that a build may lack.
require_apt_packages() {
  local use
  local -a names missing
  mapfile -t names < <(package_names apt build)
  mapfile -t missing < <(missing_from apt "${names[@]}")
  [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
  for use in "$@"; do
    mapfile -t names < <(package_names apt "$use")
    mapfile -t missing < <(missing_from apt "${names[@]}")
    if [ "${#missing[@]}" -gt 0 ] && apt_prefix >/dev/null; then
      # In a shell of its own: it may fail.
      if (install_packages "${missing[@]}"); then
        packages_came=yes
      else
        echo "going on without ${missing[*]}"
      fi
    fi
  done
}

# With apt, installs missing packages. For other package managers it prints the line to type, and
# continues, because they may have been installed in another way: Meson decides. Arguments: further
# uses (mpi).
require_packages() {
  local manager tool line
  # shellcheck disable=SC1091  # written by tests/support/unpack
  [ ! -f "$unpacked/environment" ] || source "$unpacked/environment"
  local -a names missing=()
  manager=$(package_manager /etc/os-release "$(uname -s)") || manager=
  if [ "$manager" = apt ]; then
    require_apt_packages "$@"
  fi
  mapfile -t names < <(package_names "${manager:-apt}" build)
  [ -z "$manager" ] || mapfile -t missing < <(missing_from "$manager" "${names[@]}")
  line="install what Debian calls ${names[*]}"
  [ -z "$manager" ] || line=$(install_line "$manager" "${missing[@]:-${names[@]}}")
  for tool in meson ninja python3; do
    command -v "$tool" >/dev/null || stop "$tool is missing; type"$'\n\n'"  $line"
  done
  [ "${#missing[@]}" -eq 0 ] || printf 'these packages seem to be missing:\n\n  %s\n\n' "$line"
}

# Puts what the file $2 lists into the folder $1, by pip, which apt may install; further arguments
# are pip's. Fails with the reason in log.txt of the folder.
install_by_pip() {
  local folder=$1 wanted=$2 prefix
  shift 2
  ! cmp -s "$wanted" "$folder/${wanted##*/}" || return 0
  mkdir -p "$folder"
  if ! python3 -m pip --version && prefix=$(apt_prefix); then
    # shellcheck disable=SC2086  # unquoted on purpose: the prefix is no word or two
    $prefix apt-get install -y --no-install-recommends python3-pip
  fi >"$folder/log.txt" 2>&1
  python3 -m pip install --quiet --disable-pip-version-check --no-input "$@" \
    --upgrade --target "$folder" -r "$wanted" >>"$folder/log.txt" 2>&1 && cp "$wanted" "$folder"
}

# The formatter that tests/tidy asks for. Its test is skipped if this does not succeed, with the
# last line of the log.
install_formatter() {
  install_by_pip "$1" "$repository/tests/tidy/formatter.txt" --retries 0 --timeout 10
}

apt_options=()  # of all calls of own_apt

# apt-get with lists and archives of its own below the folder $1, so that it asks for no rights.
own_apt() {
  local folder=$1
  shift
  apt-get -q -o Dir::State="$folder/apt/state" -o Dir::Cache="$folder/apt/cache" \
    -o Dir::State::status=/var/lib/dpkg/status -o Debug::NoLocking=true "${apt_options[@]}" "$@"
}

# Downloads packages and their dependencies, and unpacks them in $1/root. Installed packages are
# left out, also if a newer version exists. Nothing is installed.
unpack_packages() {
  local folder=$1 archive
  local -a packages
  shift
  mkdir -p "$folder/root" "$folder/archives" \
    "$folder"/apt/{state/lists/partial,cache/archives/partial}
  echo "asking apt"
  logged "$no_line" 1 own_apt "$folder" update ||
    stop "apt-get update does not work; the reason stands above"
  mapfile -t packages < <(own_apt "$folder" -s install --no-install-recommends "$@" |
    awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }')
  if [ "${#packages[@]}" -gt 0 ]; then
    echo "downloading ${#packages[@]} packages"
    (cd "$folder/archives" && logged "$no_line" 1 own_apt "$folder" download "${packages[@]}") ||
      stop "apt-get download does not work; the reason stands above"
    for archive in "$folder"/archives/*.deb; do dpkg-deb -x "$archive" "$folder/root"; done
  fi
  rm -r "$folder/archives" "$folder/apt"
}

# Configures the build folder $1 once; further arguments are Meson options, kept by the folder.
configure() {
  local folder=$1
  shift
  if [ ! -f "$folder/build.ninja" ]; then
    echo "configuring $folder"
    logged "$no_line" 1 meson setup "$folder" "$repository" "$@" ||
      stop "meson cannot configure $folder; the reason stands above"
  elif [ -n "$packages_came" ]; then
    logged "$no_line" 1 meson setup --reconfigure "$folder" "$repository" "$@" ||
      stop "meson cannot configure $folder again; the reason stands above"
  elif [ "$#" -gt 0 ]; then
    logged "$no_line" 1 meson configure "$folder" "$@" ||
      stop "meson cannot set $* in $folder; the reason stands above"
  fi
}

# The targets of the build folder $1 that `shardlab run` with these arguments needs, one a line:
# modules only if they are asked for (that for GPUs takes minutes). Meson has their targets if there
# are nvcc and MPI.
program_targets() {
  local folder=$1 module=
  shift
  echo shardlab
  case " $* " in
    *" --device cuda "* | *" --device=cuda "*) module=libshardlab_cuda.so ;;
    *" --backend mpi "* | *" --backend=mpi "*) module=libshardlab_mpi.so ;;
  esac
  [ -z "$module" ] || ! grep -q "^build $module:" "$folder/build.ninja" || echo "$module"
}

# Prints ninja's output; of the lines that only count, one in 20.
ninja_progress() {
  awk '/^ninja: Entering/ { next }
       /^\[[0-9]+\/[0-9]+\] / { if (++count % 20 == 0) { print; fflush() } next }
       { print; fflush() }'
}

# Whether nothing is left to build; further arguments are targets (none: all).
up_to_date() {
  local folder=$1 plan
  shift
  plan=$(ninja -C "$folder" -n "$@" 2>&1) || stop "$plan"
  case $plan in *"no work to do"*) return ;; esac
  return 1
}

# Builds targets (none: all) in the build folder $1.
build() {
  local folder=$1
  shift
  if up_to_date "$folder" "$@"; then
    return
  fi
  # A changed meson.build first: its output is of interest only when it fails.
  logged "$no_line" 1 ninja -C "$folder" build.ninja ||
    stop "meson cannot configure $folder again; the reason stands above"
  if up_to_date "$folder" "$@"; then
    return
  fi
  echo "building in $folder"
  local -a ninja=(ninja -C "$folder" -j "$(getconf _NPROCESSORS_ONLN)" "$@")
  if [ -t 1 ]; then
    "${ninja[@]}"
  else
    "${ninja[@]}" </dev/null 2>&1 | ninja_progress
  fi || stop "the build in $folder failed; the reason stands above"
}

# The suite of $1 among the names $2: of that name, or of the folder that ends with it.
suite_named() {
  local name=${1%/}
  grep -Fx -e "$name" <<<"$2" || grep -x -m 1 -e "[a-z]*/$name" <<<"$2"
}

# Prints the last line from the log that Meson writes, one JSON object a test; fails if a test did.
summary() {
  python3 - "$1" <<'END'
import collections, json, sys
with open(sys.argv[1], encoding="utf-8") as log:
    results = collections.Counter(json.loads(line)["result"] for line in log)
passed = results.pop("OK", 0) + results.pop("EXPECTEDFAIL", 0)
skipped = results.pop("SKIP", 0)
failed = sum(results.values())
if skipped:
    print(f"{skipped} skipped: they need what this machine does not have (the log says what)")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
END
}

# Fails if the log $1 has a test that was skipped and is not one of the names that follow.
skipped_are() {
  python3 - "$@" <<'END'
import json, sys
with open(sys.argv[1], encoding="utf-8") as log:
    skipped = [test for test in map(json.loads, log) if test["result"] == "SKIP"]
wrong = [test for test in skipped if test["name"].split(" / ")[-1] not in sys.argv[2:]]
for test in wrong:
    print("skipped, which is not allowed here:", test["name"])
    print(test.get("stdout", ""), end="")
sys.exit(1 if wrong else 0)
END
}
