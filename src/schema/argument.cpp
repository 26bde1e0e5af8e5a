// Argument values as text, hash and equality. Numbers hash by category and value, so that 1, 1.0
// and True are three different keys (O-33d permits the extra misses).
#include "schema/argument.h"

#include "base/hash.h"
#include "mesh/type_string.h"

namespace shardlab {
namespace {

template <typename T>
const T& get_as(const Argument& argument, const char* kind) {
  const T* value = std::get_if<T>(&argument.variant());
  if (value == nullptr) {
    fail(ErrorKind::kInternal, "argument {} is not {}", argument.text(), kind);
  }
  return *value;
}

std::string list_text(const auto& values, auto&& text_of) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += text_of(values[i]);
  }
  return text + "]";
}

std::uint64_t hash_scalar(const Scalar& scalar) {
  std::uint64_t hash = hash_mix(1, static_cast<std::uint64_t>(scalar.category()));
  if (scalar.is_integral()) return hash_mix(hash, static_cast<std::uint64_t>(scalar.to_int()));
  hash = hash_mix(hash, __builtin_bit_cast(std::uint64_t, scalar.to_double()));
  const double imaginary = scalar.imaginary();
  return imaginary == 0 ? hash : hash_mix(hash, __builtin_bit_cast(std::uint64_t, imaginary));
}

std::uint64_t hash_pointer(const void* pointer) {
  return hash_mix(2, reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace

Argument::Argument(const Argument& other) = default;
Argument::Argument(Argument&& other) noexcept = default;
Argument& Argument::operator=(const Argument& other) = default;
Argument& Argument::operator=(Argument&& other) noexcept = default;
Argument::~Argument() = default;
Argument::Argument(DTensor value) : value_(std::move(value)) {}
Argument::Argument(Dims value) : value_(std::move(value)) {}
Argument::Argument(std::string value) : value_(std::move(value)) {}
Argument::Argument(const char* value) : value_(std::string(value)) {}
Argument::Argument(Generator value) : value_(std::move(value)) {}
Argument::Argument(ArgumentList value) : value_(std::move(value)) {}

const Scalar& Argument::scalar() const { return get_as<Scalar>(*this, "a number"); }
const DTensor& Argument::tensor() const { return get_as<DTensor>(*this, "a tensor"); }
const DTensorSpec* Argument::spec() const { return get_as<const DTensorSpec*>(*this, "a spec"); }
const Dims& Argument::ints() const { return get_as<Dims>(*this, "a list of ints"); }
const ArgumentList& Argument::list() const { return get_as<ArgumentList>(*this, "a list"); }
DType Argument::dtype() const { return get_as<DType>(*this, "a dtype"); }
const std::string& Argument::string() const { return get_as<std::string>(*this, "a string"); }

std::string Argument::text() const {
  struct Visitor {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(const Scalar& value) const { return value.text(); }
    std::string operator()(const DTensor& value) const {
      return value.defined() ? type_string(value) : "None";
    }
    std::string operator()(const DTensorSpec* value) const {
      return value != nullptr ? type_string(*value) : "None";
    }
    std::string operator()(const Dims& value) const {
      return list_text(value, [](std::int64_t i) { return std::to_string(i); });
    }
    std::string operator()(DType value) const { return std::string(to_string(value)); }
    std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
    std::string operator()(const Generator&) const { return "generator"; }
    std::string operator()(const ArgumentList& value) const {
      return list_text(value, [](const Argument& element) { return element.text(); });
    }
  };
  return std::visit(Visitor{}, value_);
}

bool Argument::operator==(const Argument& other) const {
  if (value_.index() != other.value_.index()) return false;
  const auto equals = [&]<typename T>(const T& value) {
    const T& theirs = std::get<T>(other.value_);
    if constexpr (std::is_same_v<T, DTensor>) {
      return value.is_same(theirs);
    } else {
      return value == theirs;
    }
  };
  return std::visit(equals, value_);
}

std::uint64_t Argument::hash() const {
  struct Visitor {
    std::uint64_t operator()(std::monostate) const { return 0; }
    std::uint64_t operator()(const Scalar& value) const { return hash_scalar(value); }
    std::uint64_t operator()(const DTensor& value) const { return hash_pointer(value.impl()); }
    std::uint64_t operator()(const DTensorSpec* value) const { return hash_pointer(value); }
    std::uint64_t operator()(const Dims& value) const { return hash_range(3, value); }
    std::uint64_t operator()(DType value) const {
      return hash_mix(4, static_cast<std::uint64_t>(value));
    }
    std::uint64_t operator()(const std::string& value) const { return hash_text(5, value); }
    std::uint64_t operator()(const Generator& value) const { return hash_pointer(value.get()); }
    std::uint64_t operator()(const ArgumentList& value) const {
      std::uint64_t hash = hash_mix(6, value.size());
      for (const Argument& element : value) hash = hash_mix(hash, element.hash());
      return hash;
    }
  };
  return std::visit(Visitor{}, value_);
}

}  // namespace shardlab
