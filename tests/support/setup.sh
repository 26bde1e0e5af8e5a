# setup.sh - what tests/run and scenarios/run share: packages, configuration, build.
# Sourced, never run. Each function is quiet when nothing needs doing and ends the script with
# exit code 2 when shardlab cannot be built as asked.
# shellcheck shell=bash

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Debian packages, the tools first. cmake is how Meson finds doctest.
packages=(
  meson ninja-build g++ pkg-config cmake
  libeigen3-dev libfmt-dev doctest-dev libboost-context-dev libtomlplusplus-dev
  libcli11-dev nlohmann-json3-dev zlib1g-dev libbenchmark-dev
)

# Without these a backend is missing, and its tests.
optional_packages=(libopenmpi-dev openmpi-bin)

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

# How apt-get may be called here: "" as root, "sudo -n" where sudo asks for no password.
# Fails when packages cannot be installed from here.
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

# usage: missing_packages PACKAGE...
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

install_packages() {
  local prefix
  if ! prefix=$(apt_prefix); then
    {
      echo "error: packages are missing and cannot be installed from here; type"
      echo
      echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
    } >&2
    exit 2
  fi
  echo "installing $*"
  local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
  # shellcheck disable=SC2206  # unquoted on purpose: the prefix is no word or two
  [ -z "$prefix" ] || apt=($prefix "${apt[@]}")
  # A stale or absent package list is the usual state of a bare machine. A failed update is tried
  # once more; what is in the lists may do all the same, so that installing decides.
  logged '^Fetched' 1 "${apt[@]}" update || logged '^Fetched' 1 "${apt[@]}" update || true
  logged '^(Need to get|Fetched|Setting up)' 10 \
    "${apt[@]}" install -y --no-install-recommends "$@" ||
    stop "apt-get could not install: $*"
}

# Installs the packages that are missing. Other systems than Debian: Meson says what it misses.
require_packages() {
  if command -v dpkg-query >/dev/null; then
    local -a missing
    mapfile -t missing < <(missing_packages "${packages[@]}")
    [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
    mapfile -t missing < <(missing_packages "${optional_packages[@]}")
    if [ "${#missing[@]}" -gt 0 ] && apt_prefix >/dev/null; then
      # In a shell of its own: it may fail.
      (install_packages "${missing[@]}") || echo "going on without ${missing[*]}"
    fi
  fi
  local tool
  for tool in meson ninja python3; do
    command -v "$tool" >/dev/null ||
      stop "$tool is missing; shardlab needs what Debian 12 calls: ${packages[*]}"
  done
}

# Configures the build folder $1 once; further arguments are Meson options, kept by the folder.
configure() {
  local folder=$1
  shift
  if [ ! -f "$folder/build.ninja" ]; then
    echo "configuring $folder"
    logged "$no_line" 1 meson setup "$folder" "$repository" "$@" ||
      stop "meson cannot configure $folder; the reason stands above"
  elif [ "$#" -gt 0 ]; then
    logged "$no_line" 1 meson configure "$folder" "$@" ||
      stop "meson cannot set $* in $folder; the reason stands above"
  fi
}

# What `shardlab run` with these arguments needs, one target of the build folder $1 a line. The
# module for GPUs takes minutes: only whoever asks for device cuda wants it. Meson has its target
# where there is nvcc.
program_targets() {
  local folder=$1 module=libshardlab_cuda.so
  shift
  echo shardlab
  case " $* " in
    *" --device cuda "* | *" --device=cuda "*)
      ! grep -q "^build $module:" "$folder/build.ninja" || echo "$module"
      ;;
  esac
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
  # A changed meson.build first: what it says is of interest only when it fails.
  logged "$no_line" 1 ninja -C "$folder" build.ninja ||
    stop "meson cannot configure $folder again; the reason stands above"
  if up_to_date "$folder" "$@"; then
    return
  fi
  echo "building in $folder"
  local -a ninja=(ninja -C "$folder" -j "$(nproc)" "$@")
  if [ -t 1 ]; then
    "${ninja[@]}"
  else
    "${ninja[@]}" </dev/null 2>&1 | ninja_progress
  fi || stop "the build in $folder failed; the reason stands above"
}
