// argument.h - one argument or result of an op call (M-2).
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/rank_context.h"
#include "mesh/dtensor.h"
#include "tensor/scalar.h"

namespace shardlab {

class Argument;
/// Lists and tuples are one kind here; the op's schema gives the element type of a list (X-17
/// treats them the same).
using ArgumentList = std::vector<Argument>;

/// None, a number, a tensor (plain or distributed), a spec (inside an OpSchema, in place of a
/// tensor), an int list, a dtype, a string, a generator, or a list of arguments. Int lists have
/// their own alternative, so that shapes never allocate.
class Argument {
 public:
  using Variant = std::variant<std::monostate, Scalar, DTensor, const DTensorSpec*, Dims, DType,
                               std::string, Generator, ArgumentList>;

  /// None.
  Argument() = default;
  // Not inline, as the constructors from what has a destructor: nearly every source has arguments,
  // and the variant's members were a fifth of its compilation.
  Argument(const Argument& other);
  Argument(Argument&& other) noexcept;
  Argument& operator=(const Argument& other);
  Argument& operator=(Argument&& other) noexcept;
  ~Argument();
  // Each takes over its argument. Tensors are handles: an argument keeps them alive.
  Argument(bool value) : value_(Scalar(value)) {}
  Argument(int value) : value_(Scalar(value)) {}
  Argument(std::int64_t value) : value_(Scalar(value)) {}
  Argument(double value) : value_(Scalar(value)) {}
  Argument(Scalar value) : value_(value) {}
  Argument(DTensor value);
  /// The spec belongs to an Arena that outlives the argument.
  Argument(const DTensorSpec* value) : value_(value) {}
  Argument(Dims value);
  Argument(DType value) : value_(value) {}
  Argument(std::string value);
  /// A string, and not the bool that a pointer would become.
  Argument(const char* value);
  Argument(Generator value);
  Argument(ArgumentList value);

  /// Its kind; exactly one of these is true.
  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_scalar() const { return std::holds_alternative<Scalar>(value_); }
  bool is_tensor() const { return std::holds_alternative<DTensor>(value_); }
  bool is_spec() const { return std::holds_alternative<const DTensorSpec*>(value_); }
  bool is_ints() const { return std::holds_alternative<Dims>(value_); }
  bool is_dtype() const { return std::holds_alternative<DType>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<ArgumentList>(value_); }

  // For code that knows the kind; a wrong one is Internal. References are valid as long as the
  // argument is not written to.
  const Scalar& scalar() const;
  const DTensor& tensor() const;
  const DTensorSpec* spec() const;
  const Dims& ints() const;
  const ArgumentList& list() const;
  DType dtype() const;
  const std::string& string() const;

  // Converts a number of any category (Scalar defines the conversion).
  std::int64_t to_int() const { return scalar().to_int(); }
  double to_double() const { return scalar().to_double(); }
  bool to_bool() const { return scalar().to_bool(); }

  /// For visitors that treat every kind.
  Variant& variant() { return value_; }
  const Variant& variant() const { return value_; }
  /// The text that a person would write: 1.0, [2, 3], None, f32[8@dp, 16].
  std::string text() const;
  /// Tensors by identity, specs by pointer, numbers by kind and value (1, 1.0 and True differ).
  bool operator==(const Argument& other) const;
  /// Equal for equal arguments; stable within a process.
  std::uint64_t hash() const;

 private:
  Variant value_;
};

/// All arguments of a call in schema order: positional, then keyword-only, defaults filled in. Most
/// calls have few, which need no memory of their own.
using Arguments = boost::container::small_vector<Argument, 4>;
/// Results in schema order. A Tensor[] result is one ArgumentList; in-place ops return the written
/// argument's own handle.
using Results = Arguments;

/// Calls visit(DTensor&) for each tensor of these arguments or results, lists flattened.
void for_each_tensor(auto& arguments, auto visit) {
  for (auto& argument : arguments) {
    if (argument.is_list()) {
      for (auto& element : std::get<ArgumentList>(argument.variant())) {
        if (auto* tensor = std::get_if<DTensor>(&element.variant())) visit(*tensor);
      }
    } else if (auto* tensor = std::get_if<DTensor>(&argument.variant())) {
      visit(*tensor);
    }
  }
}

}  // namespace shardlab
