#include "tensor/tensor.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "tensor/cpu_device.h"

using namespace shardlab;

namespace {

Tensor counting(Device& device, const Dims& shape) {
  Tensor tensor = empty(device, shape, DType::kI64);
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.numel()));
  std::iota(values.begin(), values.end(), 0);
  device.write(tensor, values.data());
  return tensor;
}

std::vector<std::int64_t> values_of(const Tensor& tensor) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.numel()));
  tensor.device()->read(tensor, values.data());
  return values;
}

// A collective that fills the storage at the first wait.
class Filling : public Work {
 public:
  Filling(Storage* storage, BufferRef result) : storage_(storage), result_(std::move(result)) {}
  void wait() override {
    if (!done_) storage_->complete(std::move(result_));
    done_ = true;
  }
  bool done() const override { return done_; }

 private:
  Storage* storage_;
  BufferRef result_;
  bool done_ = false;
};

class Failing : public Work {
 public:
  void wait() override { fail(ErrorKind::kRuntime, "rank 2 is gone"); }
  bool done() const override { return false; }
};

}  // namespace

TEST_CASE("row-major strides count empty dims as one") {
  CHECK(contiguous_strides(Dims{2, 3, 4}) == Dims{12, 4, 1});
  CHECK(contiguous_strides(Dims{2, 0, 4}) == Dims{4, 4, 1});
  CHECK(contiguous_strides(Dims{}) == Dims{});
}

TEST_CASE("contiguous: dims of size 1 have any stride, and no elements always are") {
  CHECK(is_contiguous(Dims{2, 3}, Dims{3, 1}));
  CHECK_FALSE(is_contiguous(Dims{2, 3}, Dims{1, 2}));
  CHECK(is_contiguous(Dims{2, 1}, Dims{1, 77}));
  CHECK(is_contiguous(Dims{3, 0}, Dims{1, 99}));
  CHECK(is_contiguous(Dims{}, Dims{}));
  CHECK_FALSE(is_contiguous(Dims{2, 2}, Dims{0, 0}));
}

TEST_CASE("narrow is a view of the same storage") {
  const auto device = make_cpu_device({});
  const Tensor whole = counting(*device, {4, 3});
  const Tensor middle = whole.narrow(0, 1, 2);
  CHECK(values_of(middle) == std::vector<std::int64_t>{3, 4, 5, 6, 7, 8});
  CHECK(values_of(whole.narrow(1, 2, 1)) == std::vector<std::int64_t>{2, 5, 8, 11});
  CHECK(values_of(whole.narrow(0, 4, 0)).empty());
  middle.mutable_data<std::int64_t>()[0] = 99;
  CHECK(values_of(whole)[3] == 99);
  CHECK(whole.storage()->version() == 2);
}

TEST_CASE("a snapshot shares memory until one side writes") {
  const auto device = make_cpu_device({});
  const Tensor tensor = counting(*device, {3});
  const Tensor before = tensor.snapshot();
  CHECK(before.data<std::int64_t>() == tensor.data<std::int64_t>());
  tensor.mutable_data<std::int64_t>()[0] = 7;
  CHECK(values_of(tensor) == std::vector<std::int64_t>{7, 1, 2});
  CHECK(values_of(before) == std::vector<std::int64_t>{0, 1, 2});
  const auto* own = tensor.data<std::int64_t>();
  CHECK(tensor.mutable_data<std::int64_t>() == own);
}

TEST_CASE("a pending result arrives on first use") {
  const auto device = make_cpu_device({});
  const Tensor result = counting(*device, {2});
  const auto storage = make_ref<Storage>(nullptr);
  storage->set_pending(make_ref<Filling>(storage.get(), result.storage()->buffer()));
  const Tensor tensor(storage, contiguous_meta(Dims{2}, DType::kI64));
  CHECK(tensor.pending());
  CHECK(values_of(tensor) == std::vector<std::int64_t>{0, 1});
  CHECK_FALSE(tensor.pending());
}

TEST_CASE("a failed collective fails every use") {
  const auto storage = make_ref<Storage>(nullptr);
  storage->set_pending(make_ref<Failing>());
  CHECK_THROWS_AS(storage->buffer(), Error);
  CHECK_THROWS_AS(storage->writable(), Error);
  CHECK(storage->pending());
}

TEST_CASE("contiguous copies only when it must") {
  const auto device = make_cpu_device({});
  const Tensor tensor = counting(*device, {2, 3});
  CHECK(contiguous(tensor).storage() == tensor.storage());
  const Tensor turned = tensor.as_view({{3, 2}, {1, 3}, DType::kI64}, 0);
  const Tensor copy = contiguous(turned);
  CHECK(copy.contiguous());
  CHECK(values_of(copy) == std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(clone_contiguous(tensor).storage() != tensor.storage());
}
