// Elements of the input's own dtype stay as the file has them; others become numbers.
#include "sim/scenario/checkpoint_input.h"

#include "base/error.h"
#include "base/text.h"
#include "sim/checkpoint/checkpoint.h"
#include "sim/recording/elements.h"

namespace shardlab {

namespace {

const StoredTensor& tensor_in(const Checkpoint& checkpoint, const std::string& name) {
  const std::vector<StoredTensor>& all = checkpoint.tensors();
  if (name.empty() && all.size() == 1) return all[0];
  if (const StoredTensor* found = checkpoint.find(name)) return *found;
  std::vector<std::string> known;
  for (const StoredTensor& tensor : all) known.push_back(tensor.name);
  fail(ErrorKind::kValue, Fix{name.empty() ? "say which: tensor = \"NAME\"" : suggest(name, known)},
       "{} has {}, and {}", checkpoint.path(), counted(std::ssize(all), "tensor"),
       name.empty() ? "the input names none of them" : fmt::format("none '{}'", name));
}

void take(const Checkpoint& checkpoint, const StoredTensor& tensor, ScenarioInput& input) {
  const auto& sizes = input.type.sizes;
  if (!std::equal(tensor.shape.begin(), tensor.shape.end(), sizes.begin(), sizes.end())) {
    fail(ErrorKind::kValue, Fix{"give the input the shape of the tensor"},
         "'{}' of {} has shape [{}], input '{}' has [{}]", tensor.name, checkpoint.path(),
         text_of_list(tensor.shape, ", "), input.name, text_of_list(sizes, ", "));
  }
  checkpoint.check_whole(tensor);
  auto bytes = std::make_shared<std::string>(static_cast<std::size_t>(tensor.bytes()), '\0');
  checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes->data());
  const auto dtype = tensor.type->dtype;
  if (!dtype) {
    fail(ErrorKind::kUnsupported, Fix{"convert it: shardlab reshard FROM TO --dtype f32"},
         "'{}' of {} is {}, which programs cannot take", tensor.name, checkpoint.path(),
         tensor.type->name);
  }
  const DType own = input.type.dtype.value_or(DType::kF32);
  const bool loses =
      is_complex(*dtype) ? !is_complex(own) : is_floating(*dtype) && is_integral(own);
  if (loses) {
    fail(ErrorKind::kValue, Fix{"give the input the dtype of the tensor"},
         "'{}' of {} is {}, input '{}' is {}", tensor.name, checkpoint.path(), to_string(*dtype),
         input.name, to_string(own));
  }
  if (dtype == input.type.dtype && dtype != DType::kBool && !bytes->empty()) {
    input.elements = {bytes, *bytes};
  } else {
    input.recipe.values = stored_scalars(*bytes, *dtype);
  }
}

}  // namespace

std::string path_in_folder_of(const std::string& scenario, const std::string& file) {
  const std::size_t slash = scenario.rfind('/');
  const bool as_it_is = file.starts_with('/') || slash == std::string::npos;
  return as_it_is ? file : scenario.substr(0, slash + 1) + file;
}

void CheckpointInputs::read(const std::string& path, const std::string& tensor,
                            ScenarioInput& input) {
  try {
    auto& open = open_[path];
    if (!open) open = std::make_shared<const Checkpoint>(Checkpoint::open(path));
    take(*open, tensor_in(*open, tensor), input);
  } catch (const Error& error) {
    input.where.refuse(error.summary(), fix_of(error));
  }
}

}  // namespace shardlab
