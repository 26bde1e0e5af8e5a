// An edit wraps the function that makes a tensor's elements: nothing is read before a tensor is
// asked for.
#include "sim/checkpoint/edited.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/torch_dtype.h"
#include "kernels/convert.h"

namespace shardlab {

namespace {

using Edits = std::vector<Edit>;
using Texts = std::vector<std::string>;

[[noreturn]] void refuse(const Edit& edit, std::string_view what) {
  const std::vector<EditOption>& all = edit_options();
  const auto option = std::ranges::find(all, edit.option, &EditOption::name);
  fail(Fix{option == all.end() ? "" : fmt::format("--{} {}", option->name, option->form)}, "{}: {}",
       edit.command(), what);
}

Texts parts_of(std::string_view text, std::string_view separator) {
  Texts parts;
  for (const std::string_view part : parts_of_text(text, separator)) {
    const std::size_t from = std::min(part.find_first_not_of(' '), part.size());
    parts.emplace_back(part.substr(from, part.find_last_not_of(' ') + 1 - from));
  }
  return parts;
}

std::int64_t number_in(const Edit& edit, std::string_view text) {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = fault == std::errc() && end == text.data() + text.size() && number >= 0;
  if (!whole) refuse(edit, fmt::format("'{}' is no number", text));
  return number;
}

// ---- names ----

// The length of "*" or "{i}" at the begin of a text; 0 if there is none.
std::size_t open_part(std::string_view text) {
  if (text.starts_with('*')) return 1;
  return text.starts_with('{') ? text.find('}') + 1 : 0;  // npos + 1 is 0
}

using OpenParts = std::vector<std::pair<std::string_view, std::string_view>>;  // and their texts

// How much of the name the pattern takes, up to a dot or the end.
std::optional<std::size_t> taken(std::string_view pattern, std::string_view name, OpenParts& open) {
  if (pattern.empty()) {
    return name.empty() || name[0] == '.' ? std::optional<std::size_t>(0) : std::nullopt;
  }
  const std::size_t part = open_part(pattern),
                    most = part == 1 ? name.size() : std::min(name.find('.'), name.size());
  if (part == 0) {
    if (name.empty() || name[0] != pattern[0]) return std::nullopt;
    const auto rest = taken(pattern.substr(1), name.substr(1), open);
    return rest ? std::optional(*rest + 1) : std::nullopt;
  }
  for (std::size_t size = most + 1; size-- > (part == 1 ? 0 : 1);) {
    open.emplace_back(pattern.substr(0, part), name.substr(0, size));
    if (const auto rest = taken(pattern.substr(part), name.substr(size), open)) return *rest + size;
    open.pop_back();
  }
  return std::nullopt;
}

// The name with `by` in place of the parts that the pattern takes; empty if it takes none.
std::optional<std::string> name_like(std::string_view name, std::string_view pattern,
                                     std::string_view by) {
  const bool all = pattern.starts_with('^');
  pattern.remove_prefix(all ? 1 : 0);
  for (std::size_t at = 0; at < name.size();
       at = std::min(name.find('.', at), name.size() - 1) + 1) {
    OpenParts open;
    const auto size = taken(pattern, name.substr(at), open);
    if (!size || (all && *size < name.size())) continue;
    std::string out(name.substr(0, at));
    while (!by.empty()) {
      const std::size_t part = open_part(by);
      const auto found = std::ranges::find(open, by.substr(0, part), &OpenParts::value_type::first);
      const bool known = part > 0 && found != open.end();
      out += known ? found->second : by.substr(0, 1);
      if (known) open.erase(found);
      by.remove_prefix(known ? part : 1);
    }
    return out + std::string(name.substr(at + *size));
  }
  return std::nullopt;
}

// The tensors that fit.
std::vector<MadeTensor*> fitting(const Edit& edit, const std::string& pattern,
                                 MadeTensors& tensors) {
  std::vector<MadeTensor*> found;
  Texts known;
  for (MadeTensor& tensor : tensors) {
    if (name_like(tensor.name, pattern, "")) found.push_back(&tensor);
    known.push_back(tensor.name);
  }
  if (found.empty()) {
    fail(Fix{suggest(pattern, known)}, "{}: it fits no tensor", edit.command());
  }
  return found;
}

// ---- the edits ----

Edits rename(const Edit& edit, MadeTensors& tensors) {
  const auto [from, to] = two_parts(edit, "->");
  for (MadeTensor* tensor : fitting(edit, from, tensors))
    tensor->name = *name_like(tensor->name, from, to);
  const std::string_view all = from.starts_with('^') ? "^" : "";
  return {{"rename", fmt::format("{}{} -> {}", all, to, from.substr(all.size()))}};
}

std::string joined(const MadeTensors& parts) {
  std::string all;
  std::int64_t size = 0;
  for (const MadeTensor& part : parts) size += part.bytes();
  all.reserve(static_cast<std::size_t>(size));
  for (const MadeTensor& part : parts) all += part.elements();
  return all;
}

void replace(const std::set<std::string>& gone, const MadeTensors& made, MadeTensors& tensors) {
  std::erase_if(tensors, [&](const MadeTensor& one) { return gone.contains(one.name); });
  tensors.insert(tensors.end(), made.begin(), made.end());
}

// Rows of one tensor as several.
Edits split(const Edit& edit, MadeTensors& tensors) {
  const auto [from, list] = two_parts(edit, "=");
  Texts names;
  MadeTensors parts;
  std::set<std::string> gone;
  for (const MadeTensor* whole : fitting(edit, from, tensors)) {
    std::int64_t left = whole->shape.empty() ? 0 : whole->shape[0];
    names.clear();
    for (const std::string& text : parts_of(list, ",")) {
      const auto [name, size] = two_parts({edit.option, text}, ":");
      if (whole->shape.empty()) refuse(edit, fmt::format("{} has no rows", whole->text()));
      MadeTensor part = *whole;
      names.push_back(name);
      part.name = *name_like(whole->name, from, name);
      const std::int64_t rows = number_in(edit, size);
      if (rows > left) refuse(edit, fmt::format("{} has another number of rows", whole->text()));
      part.shape[0] = rows;
      part.make([of = *whole, begin = whole->shape[0] - left, rows] {
        return rows_of(of, begin, begin + rows);
      });
      left -= rows;
      parts.push_back(std::move(part));
    }
    if (left > 0) refuse(edit, fmt::format("{} has another number of rows", whole->text()));
    gone.insert(whole->name);
  }
  replace(gone, parts, tensors);
  const bool all = from.starts_with('^');
  return {{"join", fmt::format("{} = {}", from.substr(all ? 1 : 0), text_of_list(names, ", "))}};
}

Edits join(const Edit& edit, MadeTensors& tensors) {
  const auto [to, list] = two_parts(edit, "=");
  const Texts names = parts_of(list, ",");
  MadeTensors wholes;
  std::set<std::string> gone, sizes;
  for (const MadeTensor* first : fitting(edit, names[0], tensors)) {
    MadeTensor whole = *first;
    whole.name = *name_like(first->name, names[0], to);
    Texts texts;
    MadeTensors parts;
    std::int64_t rows = 0;
    for (const std::string& name : names) {
      const std::string part = *name_like(first->name, names[0], name);
      const MadeTensor* found = find(tensors, part);
      const bool alike =
          found != nullptr && found->type == first->type && !found->shape.empty() &&
          found->shape.size() == first->shape.size() &&
          std::equal(found->shape.begin() + 1, found->shape.end(), first->shape.begin() + 1);
      if (!alike)
        refuse(edit, fmt::format("'{}' is not there, or does not fit {}", part, first->text()));
      rows += found->shape[0];
      texts.push_back(fmt::format("{}:{}", name.substr(name.starts_with('^')), found->shape[0]));
      parts.push_back(*found);
      gone.insert(part);
    }
    whole.shape[0] = rows;
    whole.make([parts] { return joined(parts); });
    sizes.insert(text_of_list(texts, ", "));
    wholes.push_back(std::move(whole));
  }
  replace(gone, wholes, tensors);
  if (sizes.size() > 1) return {};
  return {{"split", fmt::format("{} = {}", to, *sizes.begin())}};
}

// "experts.w = experts.{e}.w": the one part that only the names of single tensors have.
std::string numbered_part(const Edit& edit, std::string_view whole, std::string_view one) {
  std::set<std::string> parts;
  for (std::size_t at = one.find('{'); at != std::string_view::npos; at = one.find('{', at + 1)) {
    const std::string part(one.substr(at, open_part(one.substr(at))));
    if (!part.empty() && whole.find(part) == std::string_view::npos) parts.insert(part);
  }
  if (parts.size() == 1) return *parts.begin();
  refuse(edit, "a part in braces on the right is expected, which the left has not");
}

// Tensors of one shape along a new dim 0, in the order of their numbers.
Edits stack(const Edit& edit, MadeTensors& tensors) {
  const auto [pattern, from] = two_parts(edit, "=");
  const std::string to = pattern.substr(pattern.starts_with('^')),
                    part = numbered_part(edit, to, from);
  std::map<std::string, std::map<std::int64_t, MadeTensor>> groups;
  std::set<std::string> gone;
  for (const MadeTensor* one : fitting(edit, from, tensors)) {
    // The number, then the name.
    const Texts texts = parts_of(*name_like(one->name, from, "\n" + part + "\n" + to), "\n");
    const bool fresh = groups[texts[0] + texts[2]].emplace(number_in(edit, texts[1]), *one).second;
    if (!fresh) refuse(edit, fmt::format("two tensors have the number of {}", one->text()));
    gone.insert(one->name);
  }
  MadeTensors wholes;
  for (const auto& [name, parts] : groups) {
    MadeTensor whole = parts.begin()->second;
    for (std::int64_t i = 0; const auto& [number, one] : parts) {
      if (number != i++ || one.type != whole.type || one.shape != whole.shape)
        refuse(edit, fmt::format("those of '{}' are no tensors of one shape from 0 on", name));
    }
    whole.name = name;
    whole.shape.insert(0, std::ssize(parts));
    MadeTensors all;
    for (const auto& [number, one] : parts) all.push_back(one);
    whole.make([all] { return joined(all); });
    wholes.push_back(std::move(whole));
  }
  replace(gone, wholes, tensors);
  return {{"unstack", edit.text}};
}

Edits unstack(const Edit& edit, MadeTensors& tensors) {
  const auto [from, pattern] = two_parts(edit, "=");
  const std::string to = pattern.substr(pattern.starts_with('^')),
                    part = numbered_part(edit, from, to);
  MadeTensors parts;
  std::set<std::string> gone;
  for (const MadeTensor* whole : fitting(edit, from, tensors)) {
    if (whole->shape.empty()) refuse(edit, fmt::format("{} has no dims", whole->text()));
    gone.insert(whole->name);
    for (std::int64_t i = 0; i < whole->shape[0]; ++i) {
      MadeTensor one = *whole;
      std::string by = to;
      one.name = *name_like(whole->name, from,
                            by.replace(by.find(part), part.size(), fmt::format("{}", i)));
      one.shape.erase(0);
      one.make([of = *whole, i] { return rows_of(of, i, i + 1); });
      parts.push_back(std::move(one));
    }
  }
  replace(gone, parts, tensors);
  return {{"stack", edit.text}};
}

void swap(const Edit& edit, MadeTensor& tensor, const Swap& how) {
  if (product(Dims{how.o, how.a, how.b, how.r}) != product(tensor.shape) ||
      tensor.type == nullptr) {
    refuse(edit, fmt::format("{} is not {} elements", tensor.text(), how.text()));
  }
  tensor.make(
      [of = tensor.elements, item = tensor.item(), how] { return swapped(of(), item, how); });
}

// "halves q=32,kv=8": heads of the query and of the keys.
Edits rope(const Edit& edit, MadeTensors& tensors) {
  const Texts words = parts_of(edit.text, " ");
  const bool halves = words[0] == "halves";
  if (words.size() != 2 || (!halves && words[0] != "pairs")) {
    refuse(edit, "halves or pairs is expected, and --heads before it");
  }
  for (const std::string& part : parts_of(words[1], ",")) {
    const auto [name, count] = two_parts({edit.option, part}, "=");
    const std::int64_t heads = number_in(edit, count);
    if (heads == 0) refuse(edit, "no number of heads");
    const Texts q = {"q_proj", "wq", "q", "query", "to_q"},
                k = {"k_proj", "wk", "k", "key", "to_k"};
    bool any = false;
    for (MadeTensor& tensor : tensors) {
      const bool fits = std::ranges::any_of(
          name == "q"                   ? q
          : name == "kv" || name == "k" ? k
                                        : Texts{name},
          [&](const std::string& one) { return name_like(tensor.name, one, "").has_value(); });
      if (!fits || tensor.shape.empty()) continue;
      any = true;
      const std::int64_t half = tensor.shape[0] / heads / 2, rest = around(tensor.shape, 0).second;
      swap(edit, tensor, halves ? Swap{heads, half, 2, rest} : Swap{heads, 2, half, rest});
    }
    if (!any) refuse(edit, fmt::format("no tensor is called '{}'", name));
  }
  return {{"rope", (halves ? "pairs " : "halves ") + words[1]}};
}

Edits transpose(const Edit& edit, MadeTensors& tensors) {
  for (MadeTensor* tensor : fitting(edit, edit.text, tensors)) {
    Dims& shape = tensor->shape;
    if (shape.size() < 2) refuse(edit, fmt::format("{} has no two dims", tensor->text()));
    std::int64_t &rows = shape[shape.size() - 2], &columns = shape.back();
    swap(edit, *tensor, {around(shape, shape.size() - 2).first, rows, columns, 1});
    std::swap(rows, columns);
  }
  return {edit};
}

// "w = 1, 2, 128, 64", or with another shape behind it: "w = 1, 2, 4, 8 -> 8, 8".
Edits swap_dims(const Edit& edit, MadeTensors& tensors) {
  const auto [pattern, text] = two_parts(edit, "=");
  std::vector<Dims> lists;
  for (const std::string& list : parts_of(text, "->")) {
    lists.emplace_back();
    for (const std::string& part : parts_of(list, ","))
      lists.back().push_back(number_in(edit, part));
  }
  if (lists[0].size() != 4 || lists.size() > 2) refuse(edit, "four sizes are expected");
  const Swap how{lists[0][0], lists[0][1], lists[0][2], lists[0][3]};
  std::set<std::string> shapes;
  for (MadeTensor* tensor : fitting(edit, pattern, tensors)) {
    swap(edit, *tensor, how);
    if (lists.size() == 1) continue;
    if (product(lists[1]) != product(tensor->shape))
      refuse(edit, fmt::format("{} has another number of elements", tensor->text()));
    shapes.insert(" -> " + text_of_list(tensor->shape, ", "));
    tensor->shape = lists[1];
  }
  if (shapes.size() > 1) return {};
  return {{"swap", fmt::format("{} = {}{}", pattern, how.inverse().text(),
                               shapes.empty() ? "" : *shapes.begin())}};
}

Picked indices_in(const Edit& edit, const std::string& text, std::int64_t size) {
  Picked indices;
  for (const std::string& run : parts_of(text, "+")) {
    const std::size_t colon = run.find(':');
    const std::int64_t from = number_in(edit, run.substr(0, colon));
    const std::int64_t to =
        colon == std::string::npos ? from + 1 : number_in(edit, run.substr(colon + 1));
    if (to > size) refuse(edit, fmt::format("{} is outside of 0:{}", run, size));
    for (std::int64_t i = from; i < to; ++i) indices.push_back(i);
  }
  return indices;
}

// "qkv = [0:12+24:30, _]".
Edits pick(const Edit& edit, MadeTensors& tensors) {
  const auto [pattern, list] = two_parts(edit, "=");
  const Texts dims =
      parts_of(list.substr(1, list.size() - std::min<std::size_t>(list.size(), 2)), ",");
  Texts inverse = dims;
  for (MadeTensor* tensor : fitting(edit, pattern, tensors)) {
    if (list[0] != '[' || list.back() != ']' || dims.size() != tensor->shape.size() ||
        tensor->type == nullptr) {
      refuse(edit,
             fmt::format("an entry for each dim of {} in brackets is expected", tensor->text()));
    }
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      if (dims[dim] == "_") continue;
      const Picked indices = indices_in(edit, dims[dim], tensor->shape[dim]);
      const Picked places = inverse_of(indices, tensor->shape[dim]);
      const bool all = std::ranges::count(places, -1) == 0 && places.size() == indices.size();
      inverse[dim] = all ? text_of(places) : "";
      tensor->make([of = tensor->elements, shape = tensor->shape, item = tensor->item(), dim,
                    indices] { return picked(of(), shape, item, dim, indices); });
      tensor->shape[dim] = static_cast<std::int64_t>(indices.size());
    }
  }
  if (std::ranges::count(inverse, "") > 0) return {};
  return {{"pick", fmt::format("{} = [{}]", pattern, text_of_list(inverse, ", "))}};
}

// "bf16", of all floats, or "*.weight = bf16".
Edits convert(const Edit& edit, MadeTensors& tensors) {
  const bool all = edit.text.find('=') == std::string::npos;
  const auto [pattern, name] = all ? std::pair{std::string("*"), edit.text} : two_parts(edit, "=");
  const auto to = parse_written_dtype(name);
  if (!to || !is_floating(*to)) refuse(edit, fmt::format("'{}' is no dtype of floats", name));
  Edits inverse;
  bool lost = false;
  for (MadeTensor* tensor : fitting(edit, pattern, tensors)) {
    const auto from = tensor->type == nullptr ? std::nullopt : tensor->type->dtype;
    if (!from || !is_floating(*from) || from == to) continue;
    // f16 and bf16 do not hold each other.
    lost |= item_bytes(*from) >= item_bytes(*to);
    const std::string alone = pattern_of(tensor->name, tensors);
    inverse.push_back({"dtype", fmt::format("{} = {}", alone, to_string(*from))});
    tensor->make([of = tensor->elements, from, to] { return converted(of(), *from, *to); });
    tensor->type = &stored_type(*to);
  }
  return lost ? Edits{} : inverse;
}

Edits scale(const Edit& edit, MadeTensors& tensors) {
  const auto [pattern, text] = two_parts(edit, "=");
  char* end = nullptr;
  double factor = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(factor)) factor = 0;
  for (MadeTensor* tensor : fitting(edit, pattern, tensors)) {
    const auto dtype = tensor->type == nullptr ? std::nullopt : tensor->type->dtype;
    if (factor == 0 || !dtype || !is_floating(*dtype))
      refuse(edit, fmt::format("a factor of {} is expected", tensor->text()));
    tensor->make([of = tensor->elements, dtype, factor] { return scaled(of(), *dtype, factor); });
  }
  int exponent = 0;
  const bool exact = std::abs(std::frexp(factor, &exponent)) == 0.5;
  return exact ? Edits{{"scale", fmt::format("{} = {}", pattern, 1 / factor)}} : Edits{};
}

Edits drop(const Edit& edit, MadeTensors& tensors) {
  fitting(edit, edit.text, tensors);
  std::erase_if(tensors, [&](const MadeTensor& one) {
    return name_like(one.name, edit.text, "").has_value();
  });
  return {};
}

Edits tie(const Edit& edit, MadeTensors& tensors) {
  const auto [name, of] = two_parts(edit, "=");
  const MadeTensor* source = find(tensors, of);
  if (source == nullptr) refuse(edit, fmt::format("there is no tensor '{}'", of));
  MadeTensor tied = *source;
  tied.name = name;
  const std::size_t there =
      std::erase_if(tensors, [&name = name](const MadeTensor& one) { return one.name == name; });
  tensors.push_back(std::move(tied));
  return there > 0 ? Edits{} : Edits{{"drop", name}};
}

}  // namespace

std::pair<std::string, std::string> two_parts(const Edit& edit, std::string_view separator) {
  const Texts parts = parts_of(edit.text, separator);
  if (parts.size() == 2 && !parts[0].empty() && !parts[1].empty()) return {parts[0], parts[1]};
  refuse(edit, fmt::format("two parts with '{}' between them are expected", separator));
}

std::string pattern_of(const std::string& name, const MadeTensors& tensors) {
  const bool others = std::ranges::any_of(tensors, [&](const MadeTensor& one) {
    return one.name.size() > name.size() && name_like(one.name, name, "");
  });
  return (others ? "^" : "") + name;
}

std::size_t fits_of(const std::string& pattern, const MadeTensors& tensors) {
  return static_cast<std::size_t>(std::ranges::count_if(tensors, [&](const MadeTensor& one) {
    return name_like(one.name, pattern, "").has_value();
  }));
}

std::string MadeTensor::type_text() const {
  return fmt::format("{}[{}]", type == nullptr ? "?" : type->name, text_of_list(shape, ", "));
}

MadeTensors tensors_of(const Checkpoint& checkpoint) {
  MadeTensors tensors;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const auto read = [&checkpoint, &tensor](std::size_t last) {
      std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\0');
      checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes.data(), last);
      return bytes;
    };
    tensors.push_back({tensor.name, tensor.type, tensor.shape, [read] { return read(0); }});
    tensors.back().rows = [&checkpoint, &tensor](std::int64_t from, std::int64_t to, char* out) {
      Box part{Dims(tensor.shape.size()), tensor.shape};
      part.from[0] = from;
      part.shape[0] = to - from;
      checkpoint.read(tensor, part, out);
    };
    if (tensor.shape.empty() || tensor.type == nullptr) tensors.back().rows = nullptr;
    for (const PieceFault& fault : faults_of(tensor)) {
      if (fault.pieces.empty()) tensors.back().holes.push_back(fault.box);
    }
    std::int64_t held = 0;
    for (const StoredPiece& piece : tensor.pieces) held += product(piece.box.shape);
    for (std::size_t i = 1; held > tensor.count() && i < tensor.pieces.size(); ++i) {
      tensors.back().variants.push_back([read, i] { return read(i); });
    }
  }
  return tensors;
}

bool for_blocks(const MadeTensor& tensor, const std::function<bool(std::string_view)>& take) {
  constexpr std::int64_t kBlock = 1 << 20;
  if (!tensor.rows) return take(tensor.elements());
  const std::int64_t rows = tensor.shape[0], row = tensor.bytes() / std::max<std::int64_t>(rows, 1);
  const std::int64_t step =
      std::max<std::int64_t>(kBlock / std::max<std::int64_t>(row, 1) / 16, 1) * 16;
  std::string block(static_cast<std::size_t>(std::min(step, rows) * row), '\0');
  for (std::int64_t from = 0; from < rows; from += step) {
    const std::int64_t to = std::min(rows, from + step);
    tensor.rows(from, to, block.data());
    if (!take(std::string_view(block).substr(0, static_cast<std::size_t>((to - from) * row))))
      return false;
  }
  return true;
}

std::string rows_of(const MadeTensor& tensor, std::int64_t from, std::int64_t to) {
  const std::int64_t row = around(tensor.shape, 0).second * tensor.item();
  const auto size = static_cast<std::size_t>((to - from) * row);
  if (!tensor.rows) return tensor.elements().substr(static_cast<std::size_t>(from * row), size);
  std::string bytes(size, '\0');
  tensor.rows(from, to, bytes.data());
  return bytes;
}

const MadeTensor* find(const MadeTensors& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &MadeTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string Edit::command() const {
  const Texts words = parts_of(text, " ");
  if (option == "rope" && words.size() == 2)
    return fmt::format("--heads {} --rope {}", words[1], words[0]);
  return fmt::format("--{} '{}'", option, text);
}

const std::vector<EditOption>& edit_options() {
  static const std::vector<EditOption> kOptions = {
      {"rename", "'old.{i}.x -> new.{i}.y'", rename},
      {"split", "'qkv = q:4096, k:1024, v:1024'", split},
      {"join", "'qkv = q, k, v'", join},
      {"stack", "'experts.w = experts.{e}.w'", stack},
      {"unstack", "'experts.w = experts.{e}.w'", unstack},
      {"rope", "halves, with --heads q=32,kv=8 before it", rope},
      {"transpose", "'*.weight'", transpose},
      {"pick", "'embed.weight = [0:37+40:43, _]'", pick},
      {"swap", "'w = 1, 2, 128, 64'", swap_dims},
      {"dtype", "bf16, or '*.weight = bf16'", convert},
      {"scale", "'o.bias = 0.25'", scale},
      {"drop", "'optim.*'", drop},
      {"tie", "'head.weight = embed.weight'", tie}};
  return kOptions;
}

std::vector<Edit> apply(const Edit& edit, MadeTensors& tensors) {
  const auto row = std::ranges::find_if(
      edit_options(), [&](const EditOption& one) { return one.name == edit.option; });
  const std::vector<Edit> inverse = row->apply(edit, tensors);
  std::set<std::string> names;
  for (const MadeTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      refuse(edit, fmt::format("two tensors are then called '{}'", tensor.name));
  }
  return inverse;
}

}  // namespace shardlab
