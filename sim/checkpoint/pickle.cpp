// Values are nodes of 16 bytes in one list, which name each other by number: as a pickle may use
// one value many times, and itself, nothing here follows them without a limit.
#include "sim/checkpoint/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "sim/checkpoint/pickle_machine.h"

namespace shardlab {

namespace {

using Kind = PickleKind;

constexpr std::string_view kOrderedDict = "collections OrderedDict";

}  // namespace

// Each name follows its code.
std::string opcode_name(char code) {
  constexpr std::string_view kNames =
      " (MARK .STOP 0POP 1POP_MARK 2DUP FFLOAT IINT JBININT KBININT1 LLONG MBININT2 NNONE PPERSID "
      "QBINPERSID RREDUCE SSTRING TBINSTRING USHORT_BINSTRING VUNICODE XBINUNICODE aAPPEND bBUILD "
      "cGLOBAL dDICT }EMPTY_DICT eAPPENDS gGET hBINGET iINST jLONG_BINGET lLIST ]EMPTY_LIST oOBJ "
      "pPUT qBINPUT rLONG_BINPUT sSETITEM tTUPLE )EMPTY_TUPLE uSETITEMS GBINFLOAT BBINBYTES "
      "CSHORT_BINBYTES \200PROTO \201NEWOBJ \202EXT1 \203EXT2 \204EXT4 \205TUPLE1 \206TUPLE2 "
      "\207TUPLE3 \210NEWTRUE \211NEWFALSE \212LONG1 \213LONG4 \214SHORT_BINUNICODE "
      "\215BINUNICODE8 \216BINBYTES8 \217EMPTY_SET \220ADDITEMS \221FROZENSET \222NEWOBJ_EX "
      "\223STACK_GLOBAL \224MEMOIZE \225FRAME \226BYTEARRAY8 \227NEXT_BUFFER "
      "\230READONLY_BUFFER ";
  const std::size_t at = kNames.find(std::string{' ', code}) + 2;
  if (at < 2 || at >= kNames.size())
    return fmt::format("0x{:02x}", static_cast<unsigned char>(code));
  return std::string(kNames.substr(at, kNames.find(' ', at) - at));
}

struct PickleNodes {
  static constexpr bool kMayBeCut = false;

  void read() {
    pickle_.nodes_.emplace_back();  // 0: none
    switch (PickleMachine(pickle_.bytes_, *this).run(begin_)) {
      case PickleEnd::kCut:
        refuse("goes on after the end");
      case PickleEnd::kUnknown:
        fail(ErrorKind::kUnsupported, Fix{"save it with PyTorch's torch.save or checkpoint.save"},
             "{}: the pickle has the opcode {} at byte {}, which is not read", pickle_.path_,
             opcode_name(pickle_.bytes_[begin_]), begin_);
      case PickleEnd::kStop:
        pickle_.root_ = pop();
        return;
      default:
        refuse("has a number that is too large");
    }
  }

  // ---- the opcodes; PickleMachine calls them ----

  void push(Kind kind, std::int64_t value) {
    if (kind == Kind::kNone) {
      push_node(0);
    } else {
      add({.kind = kind, .data = static_cast<std::uint64_t>(value)});
    }
  }
  bool push_text(std::string_view text, Kind kind = Kind::kText) {
    return add({kind, true, static_cast<std::uint32_t>(text.size()),
                static_cast<std::uint64_t>(text.data() - pickle_.bytes_.data())});
  }
  bool push_long(std::string_view bytes) { return push_text(bytes, Kind::kLong); }
  void push_container(Kind kind) { add({.kind = kind}); }
  void mark() { marks_.push_back(static_cast<std::uint32_t>(stack_.size())); }
  std::size_t kept_count() const { return memo_.size(); }
  bool keep(std::uint64_t place) {
    const std::uint32_t top = pop();
    if (place >= memo_.size()) memo_.resize(place + 1, kNothing);
    memo_[place] = top;
    return push_node(top);
  }
  bool recall(std::uint64_t place) {
    if (place >= memo_.size() || memo_[place] == kNothing) refuse("finds nothing in its place");
    return push_node(memo_[place]);
  }
  bool close(Kind kind) { return extend(kind, take_mark()); }
  bool append(Kind kind, std::size_t count) { return extend(kind, stack_.size() - count); }
  bool close_tuple() { return add_tuple(take_mark()); }
  bool make_tuple(std::size_t count) { return add_tuple(stack_.size() - count); }
  // Classes, and calls of them.
  bool object(char code, const char*& at) {
    if (code == 'R' || code == '\x81') return call();
    if (code == 'b') return build();
    if (code == 'Q') return add({.kind = Kind::kStored, .data = pop()});
    if (code == 'c') {
      const std::string_view module = line(at);
      return add_class(module, line(at));
    }
    if (code != '\x93') return false;
    const std::string_view name = name_at(pop());
    return add_class(name_at(pop()), name);
  }

  using Node = Pickle::Node;

  [[noreturn]] void refuse(std::string_view what) const {
    fail(Fix{"write the file again"}, "{}: the pickle is damaged: {} at byte {} {}", pickle_.path_,
         begin_ < pickle_.bytes_.size() ? opcode_name(pickle_.bytes_[begin_]) : "its begin", begin_,
         what);
  }

  void check_memory() const {
    constexpr std::size_t kFree = 32 << 20;
    const std::size_t numbers =
        pickle_.entries_.size() + stack_.size() + memo_.size() + marks_.size();
    const std::size_t held = pickle_.nodes_.size() * sizeof(Node) + numbers * sizeof(std::uint32_t);
    if (held > 3 * pickle_.bytes_.size() + kFree)
      refuse("is one value more than the size explains");
  }

  std::string_view line(const char*& at) const {
    const std::string_view bytes = pickle_.bytes_;
    const auto from = static_cast<std::size_t>(at - bytes.data());
    const std::size_t end = bytes.find('\n', from);
    if (end == std::string_view::npos) refuse("goes on after the end");
    at = bytes.data() + end + 1;
    return bytes.substr(from, end - from);
  }

  bool push_node(std::uint32_t index) {
    stack_.push_back(index);
    check_memory();
    return true;
  }
  bool add(Node node) {
    pickle_.nodes_.push_back(node);
    return push_node(static_cast<std::uint32_t>(pickle_.nodes_.size() - 1));
  }
  // The lowest place of the stack that opcodes may use.
  std::size_t lowest() const { return marks_.empty() ? 0 : marks_.back(); }
  std::uint32_t pop() {
    if (stack_.size() <= lowest()) refuse("finds nothing on the stack");
    const std::uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::size_t take_mark() {
    if (marks_.empty()) refuse("finds no mark");
    const std::size_t from = lowest();
    marks_.pop_back();
    return from;
  }
  Node& node(std::uint32_t index) { return pickle_.nodes_[index]; }

  // Makes a tuple of the values from this place of the stack on.
  bool add_tuple(std::size_t from) {
    if (from < lowest() || from > stack_.size()) refuse("finds nothing on the stack");
    const Node tuple{Kind::kTuple, true, static_cast<std::uint32_t>(stack_.size() - from),
                     pickle_.entries_.size()};
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(from);
    pickle_.entries_.insert(pickle_.entries_.end(), begin, stack_.end());
    stack_.resize(from);
    return add(tuple);
  }

  // Adds the values from this place of the stack on to the container below them.
  bool extend(Kind kind, std::size_t from) {
    if (from <= lowest() || from > stack_.size()) refuse("finds nothing on the stack");
    const std::size_t more = stack_.size() - from;
    if (kind == Kind::kDict && more % 2 != 0) refuse("finds a key without a value");
    std::uint32_t target = stack_[from - 1];
    if (node(target).kind == Kind::kRecord && !node(target).known) {
      std::uint32_t& own = pickle_.entries_[node(target).data + 3];
      if (own == 0) {
        own = static_cast<std::uint32_t>(pickle_.nodes_.size());
        pickle_.nodes_.push_back({.kind = kind});
      }
      target = own;
    }
    Node& grown = node(target);
    if (grown.kind != kind) refuse("finds another container");
    auto& entries = pickle_.entries_;
    // There is room for the next power of two: n entries are moved log n times.
    if (grown.count + more > (grown.count == 0 ? 0 : std::bit_ceil(grown.count))) {
      const std::size_t to = entries.size();
      entries.resize(to + std::bit_ceil(grown.count + more));
      for (std::size_t i = 0; i < grown.count; ++i) entries[to + i] = entries[grown.data + i];
      grown.data = to;
    }
    for (; from < stack_.size(); ++from) entries[grown.data + grown.count++] = stack_[from];
    stack_.resize(stack_.size() - more);
    return true;
  }

  std::string_view name_at(std::uint32_t index) {
    const Node& text = node(index);
    if (text.kind != Kind::kText) refuse("finds no name");
    return std::string_view(pickle_.bytes_).substr(text.data, text.count);
  }

  bool add_class(std::string_view module, std::string_view name) {
    const auto type = fmt::format("{} {}", module, name);
    const bool known = type == kOrderedDict || (rules_.knows != nullptr && rules_.knows(type));
    if (!known && rules_.others == PickleRules::Others::kRefused) {
      fail(ErrorKind::kUnsupported,
           Fix{"save plain values and tensors: classes of other programs are not read"},
           "{}: the pickle has a {} ({} at byte {})", pickle_.path_,
           escaped_text(fmt::format("{}.{}", module, name), "\\x{:02x}"),
           opcode_name(pickle_.bytes_[begin_]), begin_);
    }
    pickle_.has_others_ |= !known;
    const auto [found, fresh] = classes_.emplace(type, pickle_.classes_.size());
    if (fresh) pickle_.classes_.push_back(type);
    return add({.kind = Kind::kClass, .known = known, .data = found->second});
  }

  bool call() {
    const std::uint32_t arguments = pop();
    std::uint32_t callee = pop();
    const bool inert = node(callee).kind == Kind::kRecord && !node(callee).known;
    if (inert) callee = pickle_.entries_[node(callee).data];
    if (node(callee).kind != Kind::kClass) refuse("finds no class");
    if (node(arguments).kind != Kind::kTuple) refuse("finds no arguments");
    const bool dict = pickle_.classes_[node(callee).data] == kOrderedDict;
    if (dict && node(arguments).count == 0) return add({.kind = Kind::kDict});
    const Node record{Kind::kRecord, node(callee).known, 4, pickle_.entries_.size()};
    for (const std::uint32_t entry : {callee, arguments, 0u, 0u}) pickle_.entries_.push_back(entry);
    return add(record);
  }

  // The attributes of an OrderedDict, as the versions of modules, are no part of its value.
  bool build() {
    const std::uint32_t state = pop(), target = pop();
    if (node(target).kind == Kind::kRecord) {
      pickle_.entries_[node(target).data + 2] = state;
    } else if (node(target).kind != Kind::kDict) {
      refuse("finds no object");
    }
    return push_node(target);
  }

  static constexpr std::uint32_t kNothing = ~0u;  // in a place of the memo

  Pickle& pickle_;
  const PickleRules& rules_;
  std::size_t begin_ = 0;  // of the opcode
  std::deque<std::uint32_t> stack_, memo_, marks_;
  std::map<std::string, std::uint64_t> classes_;
};

Pickle Pickle::read(std::string path, std::string bytes, const PickleRules& rules) {
  constexpr std::size_t kMost = 0xFFFFFFFF;
  Pickle pickle;
  pickle.path_ = std::move(path);
  pickle.bytes_ = std::move(bytes);
  if (pickle.bytes_.size() > kMost) {
    fail(ErrorKind::kUnsupported, Fix{"save it in parts"}, "{}: a pickle of more than 4 GiB",
         pickle.path_);
  }
  PickleNodes{pickle, rules}.read();
  return pickle;
}

// ---- values ----

PickleKind PickleValue::kind() const { return pickle_->node(node_).kind; }

void PickleValue::refuse(std::string_view what) const {
  fail(Fix{"write the file again"}, "{}: {}, and it is {}", pickle_->path_, what, print());
}

std::int64_t PickleValue::integer() const {
  if (!is(Kind::kInteger) && !is(Kind::kBool)) refuse("an integer is expected");
  return static_cast<std::int64_t>(pickle_->node(node_).data);
}

double PickleValue::real() const {
  if (!is(Kind::kReal)) return static_cast<double>(integer());
  return std::bit_cast<double>(pickle_->node(node_).data);
}

std::string_view PickleValue::text() const {
  if (!is(Kind::kText) && !is(Kind::kLong)) refuse("a text is expected");
  const Pickle::Node& node = pickle_->node(node_);
  return std::string_view(pickle_->bytes_).substr(node.data, node.count);
}

std::size_t PickleValue::size() const {
  const std::uint32_t count = pickle_->node(node_).count;
  if (is(Kind::kDict)) return count / 2;
  if (!is(Kind::kList) && !is(Kind::kTuple)) refuse("a list is expected");
  return count;
}

PickleValue PickleValue::at(std::size_t i) const {
  if (i >= size()) refuse(fmt::format("an entry {} is expected", i));
  const std::size_t place = is(Kind::kDict) ? 2 * i + 1 : i;
  return {pickle_, pickle_->entries_[pickle_->node(node_).data + place]};
}

PickleValue PickleValue::key(std::size_t i) const {
  if (!is(Kind::kDict) || i >= size()) refuse("a dict is expected");
  return {pickle_, pickle_->entries_[pickle_->node(node_).data + 2 * i]};
}

std::optional<PickleValue> PickleValue::find(std::string_view key) const {
  if (is(Kind::kRecord)) {
    std::optional<PickleValue> fields = state();
    // With slots: a dict of none, and one of them.
    if (fields && fields->is(Kind::kTuple) && fields->size() == 2) fields = fields->at(1);
    return fields && fields->is(Kind::kDict) ? fields->find(key) : std::nullopt;
  }
  if (!is(Kind::kDict)) refuse("a dict is expected");
  for (std::size_t i = size(); i-- > 0;) {
    const PickleValue name = this->key(i);
    if (name.is(Kind::kText) && name.text() == key) return at(i);
  }
  return std::nullopt;
}

PickleValue PickleValue::at(std::string_view key) const {
  const std::optional<PickleValue> found = find(key);
  if (!found) refuse(fmt::format("'{}' is expected in it", key));
  return *found;
}

std::string_view PickleValue::type() const {
  const Pickle::Node& node = pickle_->node(node_);
  if (is(Kind::kClass)) return pickle_->classes_[node.data];
  if (!is(Kind::kRecord)) refuse("an object is expected");
  return PickleValue(pickle_, pickle_->entries_[node.data]).type();
}

bool PickleValue::known() const { return pickle_->node(node_).known; }

PickleValue PickleValue::arguments() const {
  const Pickle::Node& node = pickle_->node(node_);
  if (is(Kind::kStored)) return {pickle_, static_cast<std::uint32_t>(node.data)};
  if (!is(Kind::kRecord)) refuse("an object is expected");
  return {pickle_, pickle_->entries_[node.data + 1]};
}

std::optional<PickleValue> PickleValue::state() const {
  if (!is(Kind::kRecord)) refuse("an object is expected");
  const std::uint32_t state = pickle_->entries_[pickle_->node(node_).data + 2];
  return state == 0 ? std::nullopt : std::optional(PickleValue(pickle_, state));
}

std::string PickleValue::print(std::size_t most) const {
  std::string out;
  print(out, most, 0);
  return out;
}

void PickleValue::print(std::string& out, std::size_t most, int depth) const {
  constexpr int kDeepest = 64;
  if (out.size() >= most || depth > kDeepest) {
    if (!out.ends_with("...")) out += "...";
    return;
  }
  const Pickle::Node& node = pickle_->node(node_);
  const auto entries = [&](std::size_t count, std::string_view ends) {
    out += ends[0];
    for (std::size_t i = 0; i < count && !out.ends_with("..."); ++i) {
      const bool value = is(Kind::kDict) && i % 2 == 1;
      if (i > 0) out += value ? ": " : ", ";
      PickleValue(pickle_, pickle_->entries_[node.data + i]).print(out, most, depth + 1);
    }
    out += ends[1];
  };
  if (node.kind == Kind::kNone) out += "None";
  if (node.kind == Kind::kBool) out += node.data != 0 ? "True" : "False";
  if (node.kind == Kind::kInteger) out += fmt::format("{}", integer());
  if (node.kind == Kind::kLong) out += fmt::format("an integer of {} bytes", node.count);
  if (node.kind == Kind::kReal) out += fmt::format("{}", real());
  if (node.kind == Kind::kClass) out += type();
  if (node.kind == Kind::kList) entries(node.count, "[]");
  if (node.kind == Kind::kTuple) entries(node.count, "()");
  if (node.kind == Kind::kDict) entries(node.count, "{}");
  if (node.kind == Kind::kText) {
    out += fmt::format("\"{}\"{}", escaped_text(text().substr(0, most), "\\x{:02x}"),
                       node.count > most ? "..." : "");
  }
  if (node.kind == Kind::kRecord) {
    entries(pickle_->entries_[node.data + 3] != 0 ? 4 : state() ? 3 : 2, "<>");
  }
  if (node.kind == Kind::kStored) {
    out += "stored ";
    arguments().print(out, most, depth + 1);
  }
}

}  // namespace shardlab
