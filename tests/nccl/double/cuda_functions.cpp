// The CUDA runtime of the double: devices by number, streams and events of the host.
#include <atomic>
#include <cstdlib>
#include <memory>

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

int device_count() {
  const char* text = std::getenv("SHARDLAB_NCCL_DOUBLE_DEVICES");
  return text == nullptr ? 8 : std::atoi(text);
}

}  // namespace

int current_device() { return chosen_device().load(); }

}  // namespace shardlab::nccl_double

extern "C" {

CudaError cudaGetDeviceCount(int* count) {
  *count = shardlab::nccl_double::device_count();
  return *count > 0 ? CudaError::kSuccess : CudaError::kNoDevice;
}

// Of the process: each rank has one device.
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
  stream->state.drain();
  return CudaError::kSuccess;
}

CudaError cudaStreamWaitEvent(Stream stream, Event event, unsigned int) {
  if (stream == nullptr || event == nullptr) return CudaError::kInvalidValue;
  stream->state.push(
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
  return CudaError::kSuccess;
}

CudaError cudaEventQuery(Event event) {
  if (event == nullptr) return CudaError::kInvalidValue;
  return event->state->reached() ? CudaError::kSuccess : CudaError::kNotReady;
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
  }
  return "unrecognized error code";
}

}  // extern "C"
