// The CUDA runtime of the double: devices by number, streams and events of the host.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/nccl/double/handles.h"

using shardlab::nccl::CudaError;
using shardlab::nccl::Event;
using shardlab::nccl::EventHandle;
using shardlab::nccl::Stream;
using shardlab::nccl::StreamHandle;

namespace shardlab::nccl_double {

namespace {

std::atomic<int>& chosen_device() {
  static std::atomic<int> device{0};
  return device;
}

// "2,3": those of the host that this process sees.
std::vector<int> visible_devices() {
  std::vector<int> devices;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream list(visible);
    for (std::string one; std::getline(list, one, ',');) devices.push_back(std::stoi(one));
    return devices;
  }
  const char* text = std::getenv("SHARDLAB_NCCL_DOUBLE_DEVICES");
  devices.resize(text == nullptr ? 8 : std::strtoul(text, nullptr, 10));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

int device_count() { return static_cast<int>(visible_devices().size()); }

std::atomic<int>& pending() {
  static std::atomic<int> count{0};
  return count;
}

// The last error, "not ready" too: CUDA keeps it, for each thread, until it is asked for.
CudaError& last_error() {
  static std::mutex mutex;
  static std::map<std::thread::id, CudaError> errors;
  const std::lock_guard lock(mutex);
  return errors[std::this_thread::get_id()];
}

std::atomic<int>& launches() {
  static std::atomic<int> count{0};
  return count;
}

CudaError kept(CudaError error) {
  if (device_is_broken()) return CudaError::kIllegalAddress;
  if (error != CudaError::kSuccess) last_error() = error;
  return error;
}

// Work that a stream waits for or does for the host.
void push_pending(StreamState& stream, std::function<void()> work) {
  pending() += 1;
  stream.push([work = std::move(work)] {
    work();
    pending() -= 1;
  });
}

}  // namespace

int current_device() {
  return visible_devices().at(static_cast<std::size_t>(chosen_device().load()));
}

bool work_pending() { return pending() > 0; }

bool launches_block() {
  const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
  return text != nullptr && std::atoi(text) != 0;
}

void count_launch() { launches() += 1; }

bool device_is_broken() {
  const char* text = std::getenv("SHARDLAB_NCCL_DOUBLE_BREAKS");
  return text != nullptr && launches() >= std::atoi(text);
}

}  // namespace shardlab::nccl_double

extern "C" {

CudaError cudaGetDeviceCount(int* count) {
  *count = shardlab::nccl_double::device_count();
  return *count > 0 ? CudaError::kSuccess : CudaError::kNoDevice;
}

CudaError cudaRuntimeGetVersion(int* version) {
  *version = 12080;
  return CudaError::kSuccess;
}

// SHARDLAB_NCCL_DOUBLE_DRIVER: another one.
CudaError cudaDriverGetVersion(int* version) {
  const char* text = std::getenv("SHARDLAB_NCCL_DOUBLE_DRIVER");
  *version = text == nullptr ? 13000 : std::atoi(text);
  return CudaError::kSuccess;
}

// The device of the process: each rank has one.
CudaError cudaSetDevice(int device) {
  if (device < 0 || device >= shardlab::nccl_double::device_count())
    return CudaError::kInvalidValue;
  shardlab::nccl_double::chosen_device().store(device);
  return CudaError::kSuccess;
}

CudaError cudaStreamCreateWithFlags(Stream* stream, unsigned int) {
  *stream = new StreamHandle;
  return CudaError::kSuccess;
}

CudaError cudaStreamDestroy(Stream stream) {
  delete stream;
  return CudaError::kSuccess;
}

CudaError cudaStreamSynchronize(Stream stream) {
  if (stream == nullptr) return CudaError::kInvalidValue;
  if (!shardlab::nccl_double::device_is_broken()) stream->state.drain();
  return shardlab::nccl_double::kept(CudaError::kSuccess);
}

CudaError cudaStreamWaitEvent(Stream stream, Event event, unsigned int) {
  if (stream == nullptr || event == nullptr) return CudaError::kInvalidValue;
  shardlab::nccl_double::push_pending(
      stream->state,
      [state = event->state, record = event->state->recorded()] { state->await(record); });
  return CudaError::kSuccess;
}

CudaError cudaEventCreateWithFlags(Event* event, unsigned int) {
  *event = new EventHandle;
  return CudaError::kSuccess;
}

CudaError cudaEventDestroy(Event event) {
  delete event;
  return CudaError::kSuccess;
}

CudaError cudaEventRecord(Event event, Stream stream) {
  if (stream == nullptr || event == nullptr) return CudaError::kInvalidValue;
  stream->state.push(
      [state = event->state, record = event->state->record()] { state->reach(record); });
  return shardlab::nccl_double::kept(CudaError::kSuccess);
}

CudaError cudaEventQuery(Event event) {
  if (event == nullptr) return CudaError::kInvalidValue;
  return shardlab::nccl_double::kept(event->state->reached() ? CudaError::kSuccess
                                                             : CudaError::kNotReady);
}

CudaError cudaStreamQuery(Stream stream) {
  if (stream == nullptr) return CudaError::kInvalidValue;
  return shardlab::nccl_double::kept(stream->state.idle() ? CudaError::kSuccess
                                                          : CudaError::kNotReady);
}

CudaError cudaGetLastError() {
  return std::exchange(shardlab::nccl_double::last_error(), CudaError::kSuccess);
}

CudaError cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = std::size_t{1} << 36;
  *free = *total - shardlab::nccl_double::communicator_bytes();
  return CudaError::kSuccess;
}

CudaError cudaLaunchHostFunc(Stream stream, void (*function)(void*), void* data) {
  if (stream == nullptr || function == nullptr) return CudaError::kInvalidValue;
  shardlab::nccl_double::push_pending(stream->state, [function, data] { function(data); });
  if (shardlab::nccl_double::launches_block()) stream->state.drain();
  return CudaError::kSuccess;
}

const char* cudaGetErrorString(CudaError error) {
  switch (error) {
    case CudaError::kSuccess:
      return "no error";
    case CudaError::kInvalidValue:
      return "invalid argument";
    case CudaError::kNoDevice:
      return "no CUDA-capable device is detected";
    case CudaError::kNotReady:
      return "device not ready";
    case CudaError::kIllegalAddress:
      return "an illegal memory access was encountered";
  }
  return "unrecognized error code";
}

}  // extern "C"
