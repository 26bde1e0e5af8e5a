// A file's recipes and types; api/inputs.h makes the values, as in any program.
#include "sim/run/inputs.h"

#include <optional>

#include "api/inputs.h"
#include "autograd/autograd.h"
#include "base/hash.h"
#include "base/rank_context.h"
#include "dispatch/plain_calls.h"
#include "sim/scenario/type_text.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// Elements that are in memory already; only read.
class FileBuffer final : public Buffer {
 public:
  FileBuffer(Device* device, const StoredElements& elements)
      : Buffer(device, const_cast<char*>(elements.bytes.data()), elements.bytes.size()),
        file_(elements.file) {}

 private:
  std::shared_ptr<const void> file_;
};

Tensor whole_of(const StoredElements& elements, const DTensorSpec& spec) {
  Device& device = *current_rank().device;
  const TensorMeta meta = contiguous_meta(spec.shape(), spec.dtype());
  if (device.type() == "cpu") {
    return Tensor(make_ref<Storage>(BufferRef(new FileBuffer(&device, elements))), meta);
  }
  const Tensor whole = empty(device, meta);
  device.write(whole, elements.bytes.data());
  return whole;
}

DTensor as_declared(const Scenario& scenario, const ScenarioInput& input, const DTensorSpec* spec) {
  if (input.elements.bytes.empty()) {
    return make_input(scenario.seed, input.name, input.recipe, spec);
  }
  return make_input(whole_of(input.elements, *spec), input.recipe, spec);
}

}  // namespace

void SharedInputs::share(const ScenarioInput& input, const DTensor& piece) {
  if (input.elements.bytes.empty() || !piece.distributed() || piece.spec()->has_partial()) return;
  const DTensorSpec& spec = *piece.spec();
  std::optional<Coordinate> here = spec.layout()->coordinate_of(current_rank().rank);
  if (!here) return;
  for (std::size_t dim = 0; dim < here->size(); ++dim) {
    if (spec.placement(dim).is_replicate()) (*here)[dim] = 0;
  }
  const Ref<Storage>& storage = piece.local().storage();
  const std::lock_guard lock(mutex_);
  const auto [known, first] =
      pieces_.emplace(std::pair(&input, spec.layout()->index_of(*here)), storage->buffer());
  if (!first) storage->complete(known->second);
}

DTensor make_input(const Scenario& scenario, const ScenarioInput& input, const MeshLayout* layout,
                   Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout);
  const DTensor piece = as_declared(scenario, input, spec);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return piece;
  const DTensor local = plain_calls().one("aten::_to_copy", {DTensor(piece.local()), dtype});
  TensorMeta meta = spec->meta();
  meta.dtype = dtype;
  return DTensor(local.local(), spec->with(meta));
}

DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout);
  const DTensorSpec* whole = spec->with(Placements(layout->ndim()));
  const DTensor value = as_declared(scenario, input, whole);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return DTensor(value.local());
  return plain_calls().one("aten::_to_copy", {DTensor(value.local()), dtype});
}

DTensor nudged(const DTensor& plain, std::uint64_t seed) {
  constexpr double kRoundings = 32;  // of a sum of a thousand terms in another order
  if (plain.dtype() != DType::kF32) return plain;
  const Tensor& tensor = plain.local();
  const std::vector<double> elements = read_doubles(tensor);
  const Tensor off = empty(*tensor.device(), contiguous_meta(tensor.shape(), DType::kF32));
  float* const data = off.mutable_data<float>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    seed = hash_mix(seed, i);
    const double share = static_cast<double>(seed % 2001) / 1000 - 1;
    data[i] =
        static_cast<float>(elements[i] * (1 + share * kRoundings * unit_roundoff(DType::kF32)));
  }
  return DTensor(off);
}

}  // namespace shardlab
