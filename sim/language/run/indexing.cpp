// x[...]: tensors through select, slice, unsqueeze and index; lists, tuples, strings and dicts as
// in Python; meshes by names.
#include <algorithm>

#include "autograd/tape.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/syntax/characters.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/python_error.h"
#include "sim/language/values/size_value.h"
#include "sim/types/typed_program.h"

namespace shardlab {

namespace {

std::int64_t position(const Value& key, std::int64_t size, std::string_view kind) {
  if (!key.is_integer()) {
    fail(Fix{"write an int or a slice: x[0], x[1:3]"}, "the index of a {} must be an int, not {}",
         kind, a_kind(key));
  }
  const std::int64_t index = std::get<0>(number_of(key));
  const std::int64_t wrapped = index < 0 ? index + size : index;
  if (wrapped >= 0 && wrapped < size) return wrapped;
  const std::string_view python = kind == "str"     ? "string"
                                  : kind == "range" ? "range object"
                                                    : kind;
  fail_as(fmt::format("IndexError: {} index out of range", python),
          Fix{size == 0 ? std::string("look first whether it is empty: if items")
                        : fmt::format("use an index from {} to {}", -size, size - 1)},
          "index {} is out of range for a {} of size {}", index, kind, size);
}

struct SliceBounds {
  std::int64_t start, stop, step;
};

std::optional<std::int64_t> slice_part(const SliceValue& slice, std::size_t index) {
  const Value& part = (*slice.parts)[index];
  if (part.is_none()) return std::nullopt;
  if (part.is_integer()) return std::get<0>(number_of(part));
  fail(Fix{"write ints, or leave a part out: x[1:], x[::2]"},
       "the parts of a slice must be ints, not {}", a_kind(part));
}

// Clamps a slice of `size` items like Python.
SliceBounds clamp_slice(const SliceValue& slice, std::int64_t size) {
  const std::int64_t step = slice_part(slice, 2).value_or(1);
  if (step == 0) {
    fail(Fix{"give a step that is not 0, or leave it out"}, "the step of a slice is 0");
  }
  const bool forward = step > 0;
  const auto clamp = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    const std::int64_t at = *bound < 0 ? *bound + size : *bound;
    return forward ? std::clamp<std::int64_t>(at, 0, size)
                   : std::clamp<std::int64_t>(at, -1, size - 1);
  };
  return {clamp(slice_part(slice, 0), forward ? 0 : size - 1),
          clamp(slice_part(slice, 1), forward ? size : -1), step};
}

void for_slice(const SliceBounds& bounds, const auto& take) {
  for (std::int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;
       i += bounds.step) {
    take(static_cast<std::size_t>(i));
  }
}

Value index_sequence(const Value& object, const Value& key) {
  const Values& items = items_of(object);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto* slice = key.get<SliceValue>();
  if (slice == nullptr)
    return items[static_cast<std::size_t>(position(key, size, kind_name(object)))];
  Values out;
  for_slice(clamp_slice(*slice, size), [&](std::size_t i) { out.push_back(items[i]); });
  return object.is<ListValue>() ? make_list(std::move(out)) : make_tuple(std::move(out));
}

Value index_text(const std::string& text, const Value& key) {
  const std::vector<std::string_view> characters = characters_of(text);
  const auto size = static_cast<std::int64_t>(characters.size());
  const auto* slice = key.get<SliceValue>();
  if (slice == nullptr) {
    return std::string(characters[static_cast<std::size_t>(position(key, size, "str"))]);
  }
  std::string out;
  for_slice(clamp_slice(*slice, size), [&](std::size_t i) { out += characters[i]; });
  return out;
}

Value index_range(const RangeValue& range, const Value& key) {
  const auto* slice = key.get<SliceValue>();
  if (slice == nullptr) return range[position(key, range.size(), "range")];
  const SliceBounds bounds = clamp_slice(*slice, range.size());
  __extension__ using Wide = __int128;
  const auto narrow = [](Wide value) {
    if (value == static_cast<std::int64_t>(value)) return static_cast<std::int64_t>(value);
    fail(ErrorKind::kUnsupported, Fix{"use a range of smaller numbers"},
         "the slice of a range does not fit into 64 bits");
  };
  const auto at = [&](std::int64_t i) { return narrow(range.start + Wide{i} * range.step); };
  return RangeValue{at(bounds.start), at(bounds.stop), narrow(Wide{range.step} * bounds.step)};
}

// A list of positions or flags among them becomes a tensor.
Values key_parts(Interpreter& in, const OpRegistry& registry, const Value& key) {
  Values parts{key};
  if (const auto* tuple = key.get<TupleValue>()) parts = *tuple->items;
  for (Value& part : parts) {
    const auto* list = part.get<ListValue>();
    if (list == nullptr) continue;
    if (std::ranges::any_of(*list->items, &Value::is_sequence)) {
      fail(Fix{"write it as a tensor: x[tensor([[0, 1], [2, 3]])]"},
           "the index of a tensor is a list of lists");
    }
    CallValues call{{part}, {}};
    if (list->items->empty()) call.keywords.emplace_back("dtype", DType::kI64);
    part = in.call(*find_global("tensor", registry), std::move(call));
  }
  return parts;
}

// The number of dims that an index replaces: a mask as many as it has.
std::size_t dims_of(const DTensor& index) {
  return index.dtype() == DType::kBool ? std::max<std::size_t>(index.ndim(), 1) : 1;
}

struct TensorIndexer {
  DTensor apply(const Values& parts) {
    const DTensor part = sliced(parts);
    return advanced_ ? in_.tensor_op("index", {part, indices()}) : part;
  }

  /// All but the tensors among the parts, which then are the indices.
  DTensor sliced(const Values& parts) {
    std::size_t used = 0;
    bool ellipsis = false;
    for (const Value& part : parts) {
      if (!part.is_none() && !part.is<ast::Ellipsis>()) {
        used += part.is_tensor() ? dims_of(part.as<DTensor>()) : 1;
      }
      if (part.is<ast::Ellipsis>() && std::exchange(ellipsis, true)) {
        fail(Fix{"write : for the dims that the other ones stood for"},
             "the index has more than one '...'");
      }
    }
    if (used > tensor_.ndim()) {
      fail(Fix{"give at most one index per dim; a mask is for as many as it has"},
           "the index is for {} dims, and the tensor has {}", used, tensor_.ndim());
    }
    const auto skipped = static_cast<std::int64_t>(tensor_.ndim() - used);
    for (const Value& part : parts) {
      if (part.is<ast::Ellipsis>())
        dim_ += skipped;
      else
        step(part);
    }
    return tensor_;
  }
  /// One for each dim or mask, None where there is none.
  Value indices() const { return make_list(indices_); }

  void step(const Value& part) {
    if (part.is_none()) {
      tensor_ = in_.tensor_op("unsqueeze", {tensor_, dim_});
      ++dim_;
    } else if (const auto* integer = part.get<std::int64_t>()) {
      tensor_ = in_.tensor_op("select", {tensor_, dim_, *integer});
    } else if (const auto* slice = part.get<SliceValue>()) {
      narrow(*slice);
      ++dim_;
    } else if (part.is_tensor()) {
      note_advanced(part.as<DTensor>());
    } else {
      fail(Fix{"write the index as one of these: x[0], x[:, 1:3], x[index]"},
           "the index of a tensor must be an int, a slice, None, ..., a list or a tensor, not {}",
           a_kind(part));
    }
  }

  void narrow(const SliceValue& slice) {
    if (in_.sizes() != nullptr) {
      in_.sizes()->fixed(in_.sizes()->size(tensor_, static_cast<std::size_t>(dim_)));
    }
    const std::int64_t size = tensor_.shape()[static_cast<std::size_t>(dim_)];
    const SliceBounds bounds = clamp_slice(slice, size);
    if (bounds.step < 0) {
      fail(Fix{"use flip(x, [dim]), then slice with a positive step"},
           "the step of a tensor's slice is negative");
    }
    if (bounds.start == 0 && bounds.stop == size && bounds.step == 1) return;
    tensor_ = in_.tensor_op("slice", {tensor_, dim_, bounds.start, bounds.stop, bounds.step});
  }

  void note_advanced(const DTensor& index) {
    advanced_ = true;
    indices_.resize(static_cast<std::size_t>(dim_) - extra_dims_);
    indices_.emplace_back(index);
    extra_dims_ += dims_of(index) - 1;
    dim_ += static_cast<std::int64_t>(dims_of(index));
  }

  Interpreter& in_;
  DTensor tensor_;
  std::int64_t dim_ = 0;
  bool advanced_ = false;
  std::size_t extra_dims_ = 0;  ///< dims of masks that have no entry of their own among the indices
  Values indices_;
};

/// y[mask] = number: the mask has the leading dims of the tensor.
void store_by_mask(Interpreter& in, const DTensor& tensor, DTensor mask, const Value& number) {
  while (mask.ndim() < tensor.ndim()) {
    mask = in.tensor_op("unsqueeze", {mask, static_cast<std::int64_t>(mask.ndim())});
  }
  in.call_op("masked_fill_", {{tensor, mask, number}, {}});
}

/// A value may have more dims than its place, all of size 1, as in PyTorch, and may be a part of
/// the same tensor that is repeated.
DTensor fitting(Interpreter& in, DTensor value, const DTensor& part, const DTensor& whole) {
  if (in.sizes() != nullptr) {
    in.sizes()->fix(value);
    in.sizes()->fix(part);
  }
  while (value.ndim() > part.ndim() && value.shape()[0] == 1) {
    value = in.tensor_op("select", {value, std::int64_t{0}, std::int64_t{0}});
  }
  const bool repeated = value.local().storage() == whole.local().storage() &&
                        value.shape() != part.shape() && value.ndim() <= part.ndim();
  return repeated ? in.tensor_op("expand", {value, make_tuple(part.shape())}) : value;
}

/// x[index] = value.
void store_at_indices(Interpreter& in, const DTensor& tensor, const Values& parts,
                      const Value& value) {
  TensorIndexer indexer{in, tensor};
  const DTensor part = indexer.sliced(parts);
  DTensor values;
  if (value.is_number()) {
    const CallValues number{{make_tuple(Values{}), value}, {{"dtype", part.dtype()}}};
    values = in.call_op("full", number).as<DTensor>();
  } else {
    values = value.as<DTensor>();
    if (in.sizes() != nullptr) in.sizes()->fix(values);
    while (values.ndim() > 0 && values.shape()[0] == 1) {
      values = in.tensor_op("select", {values, std::int64_t{0}, std::int64_t{0}});
    }
  }
  in.call_op("index_put_", {{part, indexer.indices(), values}, {}});
}

void store_in_tensor(Interpreter& in, const DTensor& tensor, const Values& parts,
                     const Value& value) {
  if (std::ranges::any_of(parts, &Value::is_tensor)) {
    const auto* mask = parts.size() == 1 ? parts[0].get<DTensor>() : nullptr;
    if (mask != nullptr && mask->dtype() == DType::kBool && value.is_number()) {
      return store_by_mask(in, tensor, *mask, value);
    }
    return store_at_indices(in, tensor, parts, value);
  }
  const DTensor part = [&] {
    const TargetScope target;
    return TensorIndexer{in, tensor}.apply(parts);
  }();
  if (value.is_number()) {
    in.call_op("fill_", {{part, value}, {}});
  } else {
    in.call_op("copy_", {{part, fitting(in, value.as<DTensor>(), part, tensor)}, {}});
  }
}

}  // namespace

Value Interpreter::index(const Value& object, const Value& key) {
  if (const auto* tensor = object.get<DTensor>()) {
    const CheckScope subscript(Checks::kSubscript);
    return TensorIndexer{*this, *tensor}.apply(key_parts(*this, *setup_.registry, key));
  }
  if (object.is_sequence()) return index_sequence(object, key);
  if (const auto* text = object.get<std::string>()) return index_text(*text, key);
  if (const auto* range = object.get<RangeValue>()) return index_range(*range, key);
  if (const auto* mesh = object.get<MeshValue>()) return slice_mesh(*this, *mesh, key);
  if (const auto* dict = object.get<DictValue>(); dict != nullptr && !is_set(object)) {
    if (const Value* found = dict->entries->find(key)) return *found;
    fail_as("KeyError: " + repr(key), Fix{"use d.get(key), or one of its keys: see d.keys()"},
            "the dict has no key {}", repr(key));
  }
  fail(Fix{"index a list, a tuple, a dict, a string, a mesh or a tensor"}, "{} cannot be indexed",
       a_kind(object));
}

void Interpreter::set_index(const Value& object, const Value& key, const Value& value) {
  if (const auto* tensor = object.get<DTensor>()) {
    if (!value.is_number() && !value.is_tensor()) {
      fail(Fix{"store a number or a tensor"}, "{} cannot be stored in a tensor", a_kind(value));
    }
    return store_in_tensor(*this, *tensor, key_parts(*this, *setup_.registry, key), value);
  }
  if (const auto* dict = object.get<DictValue>(); dict != nullptr && !is_set(object)) {
    return store(*dict, key, value);
  }
  if (const auto* list = object.get<ListValue>()) {
    const auto size = static_cast<std::int64_t>(list->items->size());
    check_stored(object, value);
    (*list->items)[static_cast<std::size_t>(shardlab::position(key, size, "list"))] = value;
    return;
  }
  fail(Fix{"replace items of a list, a dict or a tensor; list(x) makes a list"},
       "the items of {} cannot be replaced", a_kind(object));
}

void Interpreter::remove_index(const Value& object, const Value& key) {
  if (const auto* dict = object.get<DictValue>(); dict != nullptr && !is_set(object)) {
    index(object, key);  // refused where it has no such key
    dict->entries->erase(key);
    return;
  }
  const auto* list = object.get<ListValue>();
  if (list == nullptr) {
    fail(Fix{"take items out of a list or a dict; list(x) makes a list"},
         "the items of {} cannot be taken out", a_kind(object));
  }
  Values& items = *list->items;
  const auto size = static_cast<std::int64_t>(items.size());
  const auto* slice = key.get<SliceValue>();
  std::vector<bool> gone(items.size());
  if (slice == nullptr)
    gone[static_cast<std::size_t>(shardlab::position(key, size, "list"))] = true;
  if (slice != nullptr)
    for_slice(clamp_slice(*slice, size), [&](std::size_t i) { gone[i] = true; });
  std::size_t at = 0;
  std::erase_if(items, [&](const Value&) { return gone[at++]; });
}

}  // namespace shardlab
