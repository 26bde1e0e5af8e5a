// Objects of a program between ranks, as torch sends them: as bytes in tensors of one length, whose
// lengths were sent before. So they are collectives like others for observers, and a program's
// reads of them are reads of tensors.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "autograd/program.h"
#include "base/error.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/tensor_data.h"

namespace shardlab {

namespace {

// A letter for the kind, then the contents: numbers as they are in memory, and texts and containers
// after their length.

class Writer {
 public:
  void put(const Value& value) {
    if (value.is_none()) return tag('n');
    if (const auto* flag = value.get<bool>()) return tag(*flag ? 't' : 'f');
    if (const auto* integer = value.get<std::int64_t>()) return number('i', *integer);
    if (const auto* real = value.get<double>()) return number('d', *real);
    if (const auto* text = value.get<std::string>()) {
      number('s', static_cast<std::int64_t>(text->size()));
      bytes += *text;
      return;
    }
    if (value.is_sequence()) {
      const Values& items = items_of(value);
      number(value.is<ListValue>() ? 'l' : 'u', static_cast<std::int64_t>(items.size()));
      for (const Value& item : items) put(item);
      return;
    }
    if (const auto* dict = value.get<DictValue>()) {
      number('m', static_cast<std::int64_t>(dict->entries->size()));
      for (const auto& [key, item] : *dict->entries) {
        put(key);
        put(item);
      }
      return;
    }
    fail(Fix{value.is_tensor() ? "send tensors with dist.all_gather, broadcast, gather or scatter"
                               : "send None, bools, numbers, strings, and lists, tuples and dicts"},
         "{} is not sent as an object", a_kind(value));
  }

  std::string bytes;

 private:
  void tag(char kind) { bytes += kind; }
  void number(char kind, auto value) {
    tag(kind);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
};

struct Reader {
  Value value() {
    const char kind = take(1)[0];
    if (kind == 'n') return {};
    if (kind == 't' || kind == 'f') return kind == 't';
    if (kind == 'i') return number<std::int64_t>();
    if (kind == 'd') return number<double>();
    if (kind == 's') return std::string(take(size()));
    if (kind == 'l') return make_list(items());
    if (kind == 'u') return make_tuple(items());
    if (kind == 'm') return dict();
    fail(ErrorKind::kInternal, "a value of kind {}", static_cast<int>(kind));
  }

  std::string_view take(std::size_t count) {
    check_invariant(count <= bytes_.size(), "a value was sent whole");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::size_t size() { return static_cast<std::size_t>(number<std::int64_t>()); }
  Values items() {
    Values items;
    for (std::size_t left = size(); left > 0; --left) items.push_back(value());
    return items;
  }
  Value dict() {
    const DictValue dict = make_dict();
    for (std::size_t left = size(); left > 0; --left) {
      const Value key = value();
      dict.entries->set(key, value());
    }
    return dict;
  }

  std::string_view bytes_;
};

//   fails  Value: a tensor, a function, or any other value that is not plain
std::string bytes_of(const Value& value) {
  Writer writer;
  writer.put(value);
  return std::move(writer.bytes);
}

// New containers.
Value value_of_bytes(std::string_view bytes) { return Reader{bytes}.value(); }

using Kind = CollectiveKind;
using Sizes = std::vector<std::int64_t>;

DTensor integers(const Sizes& values) {
  const std::vector<Number> numbers(values.begin(), values.end());
  return DTensor(tensor_of(*current_rank().device, Dims{std::ssize(values)}, DType::kI64, numbers));
}

// Followed by zeros, if it has to be longer.
DTensor bytes_tensor(const std::string& bytes, std::int64_t size) {
  std::vector<Number> numbers(static_cast<std::size_t>(size), Number(std::int64_t{0}));
  std::ranges::transform(bytes, numbers.begin(), [](char c) {
    return Number(std::int64_t{static_cast<unsigned char>(c)});
  });
  return DTensor(tensor_of(*current_rank().device, Dims{size}, DType::kU8, numbers));
}

Sizes read_sizes(const DTensor& x) {
  program_calls().perform(ReadEvent{x});
  Sizes sizes;
  for (const Number& number : read_numbers(x.local())) sizes.push_back(std::get<0>(number));
  return sizes;
}

std::string read_bytes(const DTensor& x) {
  std::string bytes;
  for (const std::int64_t byte : read_sizes(x)) bytes += static_cast<char>(byte);
  return bytes;
}

std::vector<DTensor> empty_bytes(std::size_t count, std::int64_t size) {
  std::vector<DTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) tensors.push_back(bytes_tensor("", size));
  return tensors;
}

const Values& list_of(const DistCall& call, std::string_view name) {
  if (const auto* list = call.given()[name].get<ListValue>()) return *list->items;
  call.given().refuse(name, "a list", "[None]");
}

void put(const DistCall& call, std::string_view name, std::size_t index, const Value& item) {
  const Value& list = call.given()[name];
  check_stored(list, item);
  (*list.as<ListValue>().items)[index] = item;
}

// Sizes of the objects of all ranks, on this one: of the ranks that send some, on ranks that
// receive them, in the order of the group.
Sizes gathered_sizes(const DistCall& call, const std::string& own) {
  return read_sizes(all_gather(integers({std::ssize(own)}), 0, call.group()));
}

Value piece_of(const std::string& bytes, std::size_t at, std::int64_t room, std::int64_t size) {
  const std::size_t first = at * static_cast<std::size_t>(room);
  return value_of_bytes(std::string_view(bytes).substr(first, static_cast<std::size_t>(size)));
}

// Puts the objects of all ranks into a list: of each rank as many bytes as `sizes` says, and the
// next one's begin `room` bytes later.
Value put_of_all(const DistCall& call, std::string_view name, const std::string& bytes,
                 std::int64_t room, const Sizes& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    put(call, name, i, piece_of(bytes, i, room, sizes[i]));
  }
  return call.nothing();
}

// On one device, which has its own object in place of each rank's.
Sizes alone_sizes(const DistCall& call, const std::string& own) {
  return Sizes(static_cast<std::size_t>(call.reported_size()), std::ssize(own));
}

void check_room(const DistCall& call, std::string_view name, const Values& list) {
  if (std::ssize(list) >= call.reported_size()) return;
  call.refuse("give it room for each rank: [None] * dist.get_world_size(group)",
              "{} has {} entries for {} ranks", name, list.size(), call.reported_size());
}

}  // namespace

Value run_all_gather_object(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.all_gather_object(object_list, obj, group=, weights_only=)",
                      std::move(values));
  if (!call.takes_part()) return call.nothing();
  in.note_effect("objects of other ranks");
  const Values& list = list_of(call, "object_list");
  check_room(call, "object_list", list);
  const std::string own = bytes_of(call.given()["obj"]);
  if (in.plain()) return put_of_all(call, "object_list", own, 0, alone_sizes(call, own));
  const Sizes sizes = gathered_sizes(call, own);
  const std::int64_t room = std::ranges::max(sizes);
  const std::string all = read_bytes(all_gather(bytes_tensor(own, room), 0, call.group()));
  return put_of_all(call, "object_list", all, room, sizes);
}

Value run_broadcast_object_list(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(
      in,
      "dist.broadcast_object_list(object_list, src=, group=, device=, group_src=, weights_only=)",
      std::move(values));
  if (!call.takes_part()) return call.nothing();
  in.note_effect("objects of other ranks");
  const std::int64_t root = call.root("src", "group_src", true);
  const Values& list = list_of(call, "object_list");
  if (in.plain()) return call.nothing();
  Sizes sizes(list.size(), 0);
  std::string own;
  for (std::size_t i = 0; call.is(root) && i < list.size(); ++i) {
    const std::string bytes = bytes_of(list[i]);
    sizes[i] = std::ssize(bytes);
    own += bytes;
  }
  sizes = read_sizes(broadcast(integers(sizes), root, call.group()));
  std::int64_t whole = 0;
  for (const std::int64_t size : sizes) whole += size;
  const std::string all = read_bytes(broadcast(bytes_tensor(own, whole), root, call.group()));
  std::size_t first = 0;
  for (std::size_t i = 0; !call.is(root) && i < list.size(); ++i) {
    put(call, "object_list", i, value_of_bytes(std::string_view(all).substr(first)));
    first += static_cast<std::size_t>(sizes[i]);
  }
  return call.nothing();
}

Value run_gather_object(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(
      in, "dist.gather_object(obj, object_gather_list=, dst=, group=, group_dst=, weights_only=)",
      std::move(values));
  if (!call.takes_part()) return call.nothing();
  in.note_effect("objects of other ranks");
  const std::int64_t root = call.root("dst", "group_dst", true);
  const bool takes = call.is(root);
  const Value& given = call.given()["object_gather_list"];
  const bool none = given.is_none() || (given.is<ListValue>() && items_of(given).empty());
  if (takes == none) {
    call.refuse("give the list at the destination, and None elsewhere",
                "rank {} is {}the destination and has {} object_gather_list", in.setup().rank,
                takes ? "" : "not ", none ? "no" : "an");
  }
  const std::string own = bytes_of(call.given()["obj"]);
  if (takes) check_room(call, "object_gather_list", list_of(call, "object_gather_list"));
  if (in.plain()) {
    return put_of_all(call, "object_gather_list", own, 0, takes ? alone_sizes(call, own) : Sizes());
  }
  const Sizes sizes = gathered_sizes(call, own);
  const std::int64_t room = std::ranges::max(sizes);
  const std::vector<DTensor> arrived = empty_bytes(takes ? sizes.size() : 0, room);
  collect_into({.kind = Kind::kGather,
                .inputs = {bytes_tensor(own, room)},
                .outputs = arrived,
                .root = root},
               call.group());
  std::string all;
  for (const DTensor& one : arrived) all += read_bytes(one);
  return put_of_all(call, "object_gather_list", all, room, takes ? sizes : Sizes());
}

Value run_scatter_object_list(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in,
                      "dist.scatter_object_list(scatter_object_output_list, "
                      "scatter_object_input_list=, src=, group=, group_src=, weights_only=)",
                      std::move(values));
  if (!call.takes_part()) return call.nothing();
  in.note_effect("objects of other ranks");
  const std::int64_t root = call.root("src", "group_src", true);
  constexpr std::string_view kOut = "scatter_object_output_list";
  if (list_of(call, kOut).empty()) {
    call.refuse("give it room for one object: [None]", "scatter_object_output_list is empty");
  }
  std::vector<std::string> parts(static_cast<std::size_t>(call.reported_size()));
  if (call.is(root)) {
    const Values& sent = list_of(call, "scatter_object_input_list");
    check_room(call, "scatter_object_input_list", sent);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = bytes_of(sent[i]);
  }
  if (in.plain()) {
    const auto own = static_cast<std::size_t>(call.reported_place());
    if (call.is(root)) put(call, kOut, 0, value_of_bytes(parts[own < parts.size() ? own : 0]));
    return call.nothing();
  }
  std::int64_t room = 0;
  for (const std::string& part : parts) room = std::max<std::int64_t>(room, std::ssize(part));
  room = read_sizes(broadcast(integers({room}), root, call.group())).at(0);
  std::vector<DTensor> bytes, sizes;
  for (std::size_t i = 0; call.is(root) && i < parts.size(); ++i) {
    bytes.push_back(bytes_tensor(parts[i], room));
    sizes.push_back(integers({std::ssize(parts[i])}));
  }
  const DTensor mine = bytes_tensor("", room), size = integers({0});
  collect_into({.kind = Kind::kScatter, .inputs = bytes, .outputs = {mine}, .root = root},
               call.group());
  collect_into({.kind = Kind::kScatter, .inputs = sizes, .outputs = {size}, .root = root},
               call.group());
  put(call, kOut, 0, piece_of(read_bytes(mine), 0, room, read_sizes(size).at(0)));
  return call.nothing();
}

}  // namespace shardlab
