// The only file that includes MPI's headers: a shared module next to the program.
#include <mpi.h>

#include <algorithm>
#include <cstring>

#include "backends/mpi/api.h"

namespace shardlab::mpi {

namespace {

static_assert(sizeof(MPI_Request) <= sizeof(Request::handle));

MPI_Request native(const Request& request) {
  MPI_Request handle;
  std::memcpy(&handle, &request.handle, sizeof handle);
  return handle;
}

void keep(MPI_Request handle, Request& request) {
  request.handle = 0;
  std::memcpy(&request.handle, &handle, sizeof handle);
}

// Every MPI has at least these tags; so many has each run.
constexpr int kMostTag = 32767;
constexpr int kTagsOfRun = kMostTag + 1;

// The job's processes, separated from all other messages. Runs have tags of their own, since
// messages of an earlier one may still be in flight, and MPIs have few communicators (MPICH 2,048).
// Tags repeat after as many runs as the library has room for, which are thousands.
struct Job {
  MPI_Comm communicator = MPI_COMM_NULL;
  int runs = 1;  ///< with different tags
  int run = 0;
};
Job& current() {
  static Job one;
  return one;
}
MPI_Comm job() { return current().communicator; }
int tag_of(const Message& message) { return current().run * kTagsOfRun + message.tag; }

int open_job() {
  if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &current().communicator)) return code;
  return MPI_Comm_set_errhandler(job(), MPI_ERRORS_RETURN);
}

int renew() {
  // Without further tags a communicator of its own; the old one stays.
  if (current().runs == 1) return open_job();
  current().run = (current().run + 1) % current().runs;
  return MPI_SUCCESS;
}

int count_tags() {
  int* most = nullptr;
  int known = 0;
  const int code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
  if (code == MPI_SUCCESS && known != 0) current().runs = std::max(1, *most / kTagsOfRun);
  return code;
}

int start(int* rank, int* size) {
  int provided = MPI_THREAD_SINGLE;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided)) {
    return code;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // The control channel has a thread in addition to the one that calls MPI.
  if (provided < MPI_THREAD_FUNNELED) return MPI_ERR_UNSUPPORTED_OPERATION;
  if (const int code = open_job()) return code;
  if (const int code = count_tags()) return code;
  if (const int code = MPI_Comm_rank(job(), rank)) return code;
  return MPI_Comm_size(job(), size);
}

int send(const Message& message, Request* request) {
  MPI_Request handle = MPI_REQUEST_NULL;
  const int code = MPI_Isend(message.data, message.bytes, MPI_BYTE, message.peer, tag_of(message),
                             job(), &handle);
  keep(handle, *request);
  return code;
}

int receive(const Message& message, Request* request) {
  MPI_Request handle = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(message.data, message.bytes, MPI_BYTE, message.peer, tag_of(message),
                             job(), &handle);
  keep(handle, *request);
  return code;
}

int test(Request* request, int* done) {
  *done = 1;
  MPI_Request handle = native(*request);
  if (handle == MPI_REQUEST_NULL) return MPI_SUCCESS;
  const int code = MPI_Test(&handle, done, MPI_STATUS_IGNORE);
  keep(handle, *request);  // an error, too, ends the request
  return code;
}

int cancel_receive(Request* request) {
  MPI_Request handle = native(*request);
  if (handle == MPI_REQUEST_NULL) return MPI_SUCCESS;
  return MPI_Cancel(&handle);
}

int broadcast(void* data, int bytes, int root) {
  return MPI_Bcast(data, bytes, MPI_BYTE, root, job());
}

int finish() { return MPI_Finalize(); }

const char* error_text(int code) {
  static char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

const char* version() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  // "Open MPI v4.1.4, package: ..., ..."
  if (char* end = std::strpbrk(text, ",\n")) *end = '\0';
  return text;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Api* shardlab_mpi_table() {
  static Api table = {
      .start = start,
      .finish = finish,
      .send = send,
      .receive = receive,
      .test = test,
      .cancel_receive = cancel_receive,
      .renew = renew,
      .broadcast = broadcast,
      .most_tag = kMostTag,
      .error_text = error_text,
      .version = version(),
  };
  return &table;
}

}  // namespace shardlab::mpi
