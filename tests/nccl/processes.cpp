#include "tests/nccl/processes.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "backends/nccl/library.h"

namespace shardlab {

namespace {

constexpr const char* kDeadline = "SHARDLAB_NCCL_DOUBLE_DEADLINE_MS";

std::string text_of(const std::function<std::string(int)>& body, int rank) {
  try {
    return body(rank);
  } catch (const std::exception& error) {
    return error.what();
  }
}

struct Child {
  pid_t process = -1;
  int pipe = -1;
};

Child start(int rank, const std::function<std::string(int)>& body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);  // the double ends a process that hangs in NCCL, and says why
    const std::string text = text_of(body, rank);
    const bool written =
        write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    std::fflush(nullptr);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  return {process, ends[0]};
}

std::string finish(const Child& child) {
  std::string text;
  char buffer[512];
  for (ssize_t got = 0; (got = read(child.pipe, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(child.pipe);
  int status = 0;
  waitpid(child.process, &status, 0);
  if (WIFSIGNALED(status)) text += fmt::format("died of signal {}", WTERMSIG(status));
  return text;
}

}  // namespace

std::vector<std::string> on_processes(int ranks, const std::function<std::string(int)>& body) {
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start(rank, body));
  std::vector<std::string> texts;
  for (const Child& child : children) texts.push_back(finish(child));
  return texts;
}

const nccl::Api& double_api() { return nccl::open_library(std::getenv("SHARDLAB_NCCL_LIBRARY")); }

namespace {

// A function that exists in the double only.
template <typename Function>
Function* of_double(const char* name) {
  void* library = dlopen(std::getenv("SHARDLAB_NCCL_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

int threads_of_double() { return of_double<int()>("shardlab_nccl_double_threads")(); }

void await_call(nccl::Comm comm) {
  const auto is_inside = of_double<bool(nccl::Comm)>("shardlab_nccl_double_is_inside");
  while (!is_inside(comm)) std::this_thread::yield();
}

LongDeadline::LongDeadline() {
  if (const char* usual = std::getenv(kDeadline)) usual_ = usual;
  setenv(kDeadline, "60000", 1);
}

LongDeadline::~LongDeadline() {
  usual_.empty() ? unsetenv(kDeadline) : setenv(kDeadline, usual_.c_str(), 1);
}

}  // namespace shardlab
