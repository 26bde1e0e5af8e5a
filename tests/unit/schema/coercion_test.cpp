// Values and the declared types that they fit: a table of all kinds of values against types, by the
// rules that the header of the binder states; the texts, identities and accessors of arguments.
#include <doctest/doctest.h>

#include <complex>
#include <map>

#include "base/error.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// The declared type of the one argument of "f(TYPE x) -> ()".
SchemaArgument declared(const std::string& type) {
  static std::map<std::string, OpDescriptor> known;
  const auto found = known.emplace(type, parse_op_schema("f(" + type + " x) -> ()")).first;
  return found->second.arguments.at(0);
}

/// The value after conversion, or "-".
std::string as_declared(const std::string& type, const Argument& value,
                        BindRules::Numbers numbers = BindRules::Numbers::kStandForTensors) {
  const auto fitting = coerced(declared(type), value, numbers);
  return fitting ? fitting->text() : "-";
}

const std::complex<double> kComplex(1, 2);

std::string kind_error(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const Error& error) {
    return std::string(to_string(error.kind()));
  }
  return "";
}

}  // namespace

TEST_CASE("M-2 each kind of value fits the declared types that take it, and no other") {
  const Argument tensor = DTensor(Tensor(Ref<Storage>(), contiguous_meta(Dims{2}, DType::kF32)));
  const Argument values[] = {Argument(), true,       3,      2.5,         Scalar(kComplex),
                             tensor,     Dims{1, 2}, "word", DType::kBF16};
  struct Row {
    const char* type;
    std::vector<std::string> taken;  // None, True, 3, 2.5, (1+2j), a tensor, [1, 2], "word", bf16
  };
  const Row rows[] = {
      {"int", {"-", "-", "3", "-", "-", "-", "-", "-", "-"}},
      {"int?", {"None", "-", "3", "-", "-", "-", "-", "-", "-"}},
      {"SymInt", {"-", "-", "3", "-", "-", "-", "-", "-", "-"}},
      {"float", {"-", "1.0", "3.0", "2.5", "-", "-", "-", "-", "-"}},
      {"float?", {"None", "1.0", "3.0", "2.5", "-", "-", "-", "-", "-"}},
      {"bool", {"-", "True", "-", "-", "-", "-", "-", "-", "-"}},
      {"Scalar", {"-", "True", "3", "2.5", "(1+2j)", "-", "-", "-", "-"}},
      {"Scalar?", {"None", "True", "3", "2.5", "(1+2j)", "-", "-", "-", "-"}},
      {"Tensor", {"-", "True", "3", "2.5", "(1+2j)", "f32[2]", "-", "-", "-"}},
      {"Tensor?", {"None", "True", "3", "2.5", "(1+2j)", "f32[2]", "-", "-", "-"}},
      {"Tensor(a!)", {"-", "-", "-", "-", "-", "f32[2]", "-", "-", "-"}},
      {"int[]", {"-", "-", "-", "-", "-", "-", "[1, 2]", "-", "-"}},
      {"int[2]", {"-", "-", "[3, 3]", "-", "-", "-", "[1, 2]", "-", "-"}},
      {"int[1]?", {"None", "-", "[3]", "-", "-", "-", "[1, 2]", "-", "-"}},
      {"str", {"-", "-", "-", "-", "-", "-", "-", "word", "-"}},
      {"str?", {"None", "-", "-", "-", "-", "-", "-", "word", "-"}},
      {"ScalarType", {"-", "-", "-", "-", "-", "-", "-", "-", "bf16"}},
      {"ScalarType?", {"None", "-", "-", "-", "-", "-", "-", "-", "bf16"}},
      {"MemoryFormat?", {"None", "-", "-", "-", "-", "-", "-", "word", "-"}},
      {"Generator?", {"None", "-", "-", "-", "-", "-", "-", "-", "-"}},
  };
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < std::size(values); ++i) {
      CAPTURE(row.type);
      CAPTURE(values[i].text());
      std::string expected = row.taken[i];
      if (expected == "word") expected = values[7].text();
      CHECK(as_declared(row.type, values[i]) == expected);
    }
  }
}

TEST_CASE("M-2 numbers stand for tensors only where that is asked for") {
  CHECK(as_declared("Tensor", 2.5, BindRules::Numbers::kStayNumbers) == "-");
  CHECK(as_declared("Tensor?", 3, BindRules::Numbers::kStayNumbers) == "-");
  CHECK(as_declared("Scalar", 3, BindRules::Numbers::kStayNumbers) == "3");
}

TEST_CASE("M-2 lists fit where all of their elements do") {
  const Argument tensor = DTensor(Tensor(Ref<Storage>(), contiguous_meta(Dims{2}, DType::kF32)));
  struct Row {
    const char* type;
    ArgumentList given;
    const char* taken;
  };
  const Row rows[] = {
      {"int[]", {1, 2}, "[1, 2]"},
      {"int[]", {}, "[]"},
      {"int[]", {1, true}, "-"},
      {"int[]", {1, 2.0}, "-"},
      {"float[]", {1, 2.5}, "[1, 2.5]"},
      {"float[]", {1, "x"}, "-"},
      {"bool[3]", {true, false, true}, "[True, False, True]"},
      {"bool[3]", {true, false}, "-"},
      {"Tensor[]", {tensor, tensor}, "[f32[2], f32[2]]"},
      {"Tensor[]", {tensor, 1}, "-"},
      {"Tensor[]", {tensor, Argument()}, "-"},
      {"Tensor?[]", {tensor, Argument()}, "[f32[2], None]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.type);
    CHECK(as_declared(row.type, row.given) == row.taken);
  }
  CHECK(as_declared("Tensor[]", tensor) == "-");
}

TEST_CASE(
    "M-2 arguments are equal by kind and value, equal ones hash alike, and NaN is NaN's like") {
  const Argument values[] = {Argument(),
                             true,
                             1,
                             1.0,
                             Scalar(std::complex<double>(1, 0)),
                             Dims{1},
                             "1",
                             DType::kI8,
                             Dims{},
                             ArgumentList{},
                             ArgumentList{1},
                             ArgumentList{1.0}};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    for (std::size_t k = 0; k < std::size(values); ++k) {
      CAPTURE(values[i].text());
      CAPTURE(values[k].text());
      CHECK((values[i] == values[k]) == (i == k));
    }
    const Argument copy = values[i];
    CHECK(copy.hash() == values[i].hash());
  }
}

TEST_CASE("M-2 exactly one question about its kind is answered with yes, others are Internal") {
  const Argument values[] = {Argument(),  2,   DTensor(Tensor()), Dims{3},
                             DType::kF16, "x", ArgumentList{1}};
  for (const Argument& value : values) {
    CAPTURE(value.text());
    const bool kinds[] = {value.is_none(), value.is_scalar(), value.is_tensor(), value.is_spec(),
                          value.is_ints(), value.is_dtype(),  value.is_string(), value.is_list()};
    CHECK(std::count(std::begin(kinds), std::end(kinds), true) == 1);
    CHECK(kind_error([&] { value.scalar(); }) == (value.is_scalar() ? "" : "Internal"));
    CHECK(kind_error([&] { value.tensor(); }) == (value.is_tensor() ? "" : "Internal"));
    CHECK(kind_error([&] { value.ints(); }) == (value.is_ints() ? "" : "Internal"));
    CHECK(kind_error([&] { value.dtype(); }) == (value.is_dtype() ? "" : "Internal"));
    CHECK(kind_error([&] { value.string(); }) == (value.is_string() ? "" : "Internal"));
    CHECK(kind_error([&] { value.list(); }) == (value.is_list() ? "" : "Internal"));
    CHECK(kind_error([&] { value.spec(); }) == "Internal");
  }
}

TEST_CASE(
    "M-2 binding: arguments missing, left over, doubled or misplaced are refused in Python's "
    "words") {
  OpRegistry registry;
  OpRow row;
  row.op = parse_op_schema(
      "f(Tensor self, int dim, float p=0.5, *, bool keepdim=False, str? mode=None) -> ()");
  const OpRow& registered = registry.add(std::move(row));
  const Argument tensor = DTensor(Tensor(Ref<Storage>(), contiguous_meta(Dims{2}, DType::kF32)));
  struct Row {
    GivenArguments given;
    const char *python, *in_order;  // the reason, or "" where it is taken
  };
  const Row rows[] = {
      {{{tensor, 1}, {}}, "", ""},
      {{{tensor, 1, 0.25, true}, {}}, "takes at most 3 positional arguments, 4 are given", ""},
      {{{tensor, 1, 0.25, true, "x", 3}, {}},
       "takes at most 3 positional arguments, 6 are given",
       "takes at most 5 positional arguments, 6 are given"},
      {{{tensor}, {}}, "'dim' is missing", "'dim' is missing"},
      {{{}, {{"dim", 1}}}, "'self' is missing", "'self' is missing"},
      {{{}, {{"input", tensor}, {"axis", 1}, {"keepdims", true}}}, "", "has no argument 'input'"},
      {{{tensor, 1}, {{"dim", 1}}}, "'dim' is given twice", "'dim' is given twice"},
      {{{tensor, 1}, {{"axis", 1}}}, "'dim' is given twice", "has no argument 'axis'"},
      {{{tensor, 1}, {{"colour", 1}}}, "has no argument 'colour'", "has no argument 'colour'"},
      {{{tensor, 1.5}, {}}, "'dim' is 1.5, must be int", "'dim' is 1.5, must be int"},
      {{{tensor, 1}, {{"keepdim", 1}}},
       "'keepdim' is 1, must be bool",
       "'keepdim' is 1, must be bool"},
      {{{tensor, 1}, {{"mode", 1}}}, "'mode' is 1, must be str?", "'mode' is 1, must be str?"},
  };
  for (const Row& one : rows) {
    CAPTURE(given_text(one.given));
    for (const auto style : {BindRules::Style::kPython, BindRules::Style::kSchemaOrder}) {
      std::string reason;
      const auto bound =
          bind(registered.op, registered.defaults(), one.given, {.style = style}, reason);
      CHECK(reason == (style == BindRules::Style::kPython ? one.python : one.in_order));
      CHECK(bound.has_value() == reason.empty());
      if (bound) CHECK(bound->size() == 5);
    }
  }
  CHECK(given_text({{tensor, Dims{1, 2}}, {{"p", 0.5}, {"mode", Argument()}}}) ==
        "f32[2], [1, 2], p=0.5, mode=None");
}

TEST_CASE("M-1 a schema that is no schema is refused; one that is comes back as it was written") {
  for (const std::string text : {"f(Tensor x, Tensor) -> Tensor", "f(Tensor x -> Tensor",
                                 "f(int[ x) -> ()", "f(Tensor(a x) -> ()", "f(*) -> (Tensor",
                                 "(Tensor x) -> Tensor", "f(Tensor x=) -> Tensor"}) {
    CAPTURE(text);
    CHECK(kind_error([&] { parse_op_schema(text); }) == "Value");
  }
  for (const std::string text :
       {"mine::f() -> ()", "aten::f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
        "aten::f(Tensor(a) self, int[] size, int[2]? stride=None) -> Tensor(a)",
        "aten::f(Tensor? x=None, float[] ys=[0.5,1], str s=\"a\", Generator? g=None) -> (Tensor a, "
        "Tensor? b)",
        "aten::f(Tensor[] xs, bool?[] flags=[]) -> Tensor[]"}) {
    CAPTURE(text);
    CHECK(parse_op_schema(text).text() == text);
  }
}

}  // namespace shardlab
