// edited.h - the tensors of a checkpoint under other names, in other types, shapes and orders: each
// edit with its inverse.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"

namespace shardlab {

/// A tensor whose elements are made when they are asked for.
struct MadeTensor {
  std::string name;
  const StoredType* type = nullptr;  ///< null: its elements cannot be read
  Dims shape;
  std::function<std::string()> elements;  ///< row-major
  /// Reads elements of these indices of dim 0, as they are stored; null: edited.
  std::function<void(std::int64_t from, std::int64_t to, char* out)> rows = {};
  /// Other elements.
  void make(std::function<std::string()> by) {
    elements = std::move(by);
    rows = nullptr;
    variants.clear();
    holes.clear();
  }
  std::int64_t item() const { return type == nullptr ? 0 : type->bytes; }
  std::int64_t bytes() const { return product(shape) * item(); }
  /// The same with each of several pieces that have the same part.
  std::vector<std::function<std::string()>> variants = {};
  std::vector<Box> holes = {};    ///< no piece has their elements, which are zeros
  std::string type_text() const;  ///< "f32[8, 16]"
  std::string text() const { return "'" + name + "' " + type_text(); }
};
using MadeTensors = std::vector<MadeTensor>;

/// The tensors of a checkpoint, which must outlive them.
MadeTensors tensors_of(const Checkpoint& checkpoint);
/// Calls take(bytes) for parts of its elements of a multiple of 16 bytes, in their order; all at
/// once if it is edited. False: take() was, which ends it.
bool for_blocks(const MadeTensor& tensor, const std::function<bool(std::string_view)>& take);
/// Elements of these indices of dim 0.
std::string rows_of(const MadeTensor& tensor, std::int64_t from, std::int64_t to);
/// Null if there is none.
const MadeTensor* find(const MadeTensors& tensors, std::string_view name);

/// An edit as the command line has it: --rename 'old.{i} -> new.{i}'.
struct Edit {
  std::string option, text;
  std::string command() const;
};
struct EditOption {
  const char *name, *form;
  /// Changes the tensors and returns the edits that undo it, in their order; none if something is
  /// lost.
  std::vector<Edit> (*apply)(const Edit& edit, MadeTensors& tensors);
};
/// The texts before and behind a separator, without blanks around them.
///   fails  Value: another number of parts
std::pair<std::string, std::string> two_parts(const Edit& edit, std::string_view separator);
/// A name as the pattern that fits this one of the tensors alone: "^w" beside "optim.w.exp_avg".
std::string pattern_of(const std::string& name, const MadeTensors& tensors);
/// The number of tensors that a pattern fits.
std::size_t fits_of(const std::string& pattern, const MadeTensors& tensors);
/// All options. A name in one is whole parts of tensors' names between dots; "{i}" in it is any one
/// part, the same on both sides, and "*" any text; behind "^" it is all of the name.
const std::vector<EditOption>& edit_options();
/// Changes the tensors; returns the edits that undo it, or none.
///   fails  Value: malformed; it fits no tensor, or one of another size; two of one name
std::vector<Edit> apply(const Edit& edit, MadeTensors& tensors);

/// Indices along a dim, as "0:12+24:30+3" has them; below 0: zeros.
using Picked = std::vector<std::int64_t>;
std::string text_of(const Picked& picked);
/// The place of each of so many indices among them; -1: it has none.
Picked inverse_of(const Picked& picked, std::int64_t size);
/// The sizes of the dims before a dim, and behind it.
std::pair<std::int64_t, std::int64_t> around(const Dims& shape, std::size_t dim);
std::string picked(const std::string& elements, const Dims& shape, std::int64_t item,
                   std::size_t dim, const Picked& indices);

/// Elements as o x a x b x r, whose middle dims change places: rows of heads between halves and
/// pairs, transposed matrices, pieces along one dim that were joined along another.
struct Swap {
  std::int64_t o = 1, a = 1, b = 1, r = 1;
  /// The place in the source of an element of the result.
  std::int64_t source(std::int64_t at) const {
    const std::int64_t outer = at / r / a / b, j = at / r / a % b, i = at / r % a;
    return ((outer * a + i) * b + j) * r + at % r;
  }
  Swap inverse() const { return {o, b, a, r}; }
  std::string text() const;  ///< "o, a, b, r"
};
std::string swapped(const std::string& elements, std::int64_t item, const Swap& swap);
/// Rounded to nearest.
std::string converted(const std::string& elements, DType from, DType to);
/// Floats times a number, rounded.
std::string scaled(const std::string& elements, DType dtype, double factor);

}  // namespace shardlab
