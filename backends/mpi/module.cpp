// The only file that knows MPI's headers: a shared module beside the program.
#include <mpi.h>

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

// The job's processes without anybody else's messages.
MPI_Comm& job() {
  static MPI_Comm communicator = MPI_COMM_NULL;
  return communicator;
}

int renew() {
  // The old one stays: messages of its run may still be on their way.
  if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &job())) return code;
  return MPI_Comm_set_errhandler(job(), MPI_ERRORS_RETURN);
}

int start(int* rank, int* size) {
  int provided = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided)) {
    return code;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (const int code = renew()) return code;
  if (const int code = MPI_Comm_rank(job(), rank)) return code;
  return MPI_Comm_size(job(), size);
}

int send(const Message& message, Request* request) {
  MPI_Request handle = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(message.data, message.bytes, MPI_BYTE, message.peer, message.tag, job(), &handle);
  keep(handle, *request);
  return code;
}

int receive(const Message& message, Request* request) {
  MPI_Request handle = MPI_REQUEST_NULL;
  const int code =
      MPI_Irecv(message.data, message.bytes, MPI_BYTE, message.peer, message.tag, job(), &handle);
  keep(handle, *request);
  request->expected = message.bytes;
  return code;
}

int test_all(int count, Request* requests, int* done) {
  *done = 1;
  for (int i = 0; i < count; ++i) {
    MPI_Request handle = native(requests[i]);
    if (handle == MPI_REQUEST_NULL) continue;
    int over = 0, bytes = 0;
    MPI_Status status;
    if (const int code = MPI_Test(&handle, &over, &status)) return code;
    keep(handle, requests[i]);
    if (over == 0) {
      *done = 0;
    } else if (requests[i].expected >= 0) {
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (bytes != requests[i].expected) return MPI_ERR_TRUNCATE;
      requests[i].expected = -1;
    }
  }
  return MPI_SUCCESS;
}

int cancel_receive(Request* request) {
  MPI_Request handle = native(*request);
  if (handle == MPI_REQUEST_NULL) return MPI_SUCCESS;
  if (const int code = MPI_Cancel(&handle)) return code;
  const int code = MPI_Wait(&handle, MPI_STATUS_IGNORE);
  keep(handle, *request);
  return code;
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

// Every MPI has at least these: tags are small, so the real bound is not asked for.
constexpr int kMostTag = 32767;

}  // namespace

extern "C" __attribute__((visibility("default"))) Api* shardlab_mpi_table() {
  static Api table = {
      .start = start,
      .finish = finish,
      .send = send,
      .receive = receive,
      .test_all = test_all,
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
