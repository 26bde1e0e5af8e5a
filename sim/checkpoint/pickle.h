// pickle.h - Python pickles as plain values: a stack machine for the opcodes that PyTorch writes,
// which builds values, imports nothing and calls nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// The kinds of values.
enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInteger,  ///< of at most 64 bits, signed
  kLong,     ///< a longer integer: its little-endian bytes
  kReal,
  kText,
  kList,
  kTuple,
  kDict,    ///< also an OrderedDict, whose attributes are left out
  kClass,   ///< the name of a class or function
  kRecord,  ///< what a call of a class or function would have made: its arguments and its state
  kStored,  ///< a persistent id: it says where the value is stored
};

/// The name of any opcode of protocols 0 to 5: "REDUCE"; of another byte "0xff".
std::string opcode_name(char code);

/// The classes and functions that a reader knows.
struct PickleRules {
  /// Whether it knows "torch Size": module and name with a blank between them. Null: it knows none.
  bool (*knows)(std::string_view type) = nullptr;
  /// The use of others: an error, or an inert record.
  enum class Others : std::uint8_t { kRefused, kInert } others = Others::kRefused;
};

class Pickle;

/// One value of a Pickle, which it must not outlive. Small; copies are the same value.
///   fails  Value: asked for what a value of its kind does not have; the message has the file
class PickleValue {
 public:
  PickleKind kind() const;
  bool is(PickleKind kind) const { return this->kind() == kind; }
  std::int64_t integer() const;   ///< kInteger, kBool
  double real() const;            ///< kReal, kInteger
  std::string_view text() const;  ///< kText, kLong; kept by the Pickle
  /// Entries of a list or tuple, pairs of a dict.
  std::size_t size() const;
  PickleValue at(std::size_t i) const;   ///< an entry; the value of a pair
  PickleValue key(std::size_t i) const;  ///< of a pair
  /// The value of a key of a dict, or of a field of a record; the last one where there are several.
  std::optional<PickleValue> find(std::string_view key) const;
  /// The same.
  ///   fails  Value: it has no such key
  PickleValue at(std::string_view key) const;
  /// kClass, kRecord: "torch Size".
  std::string_view type() const;
  bool known() const;                        ///< kClass, kRecord: by the rules
  PickleValue arguments() const;             ///< kRecord: a tuple; kStored: the id
  std::optional<PickleValue> state() const;  ///< kRecord
  /// The text that Python writes, a record as a call; after about so many bytes "...".
  std::string print(std::size_t most = 64) const;
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  friend class Pickle;
  PickleValue(const Pickle* pickle, std::uint32_t node) : pickle_(pickle), node_(node) {}
  void print(std::string& out, std::size_t most, int depth) const;

  const Pickle* pickle_;
  std::uint32_t node_;
};

/// The values of one pickle. Immutable after it is read; for any number of threads.
class Pickle {
 public:
  /// Reads one; bytes after its end do not count. Memory: at most 4 times its bytes, and 32 MiB.
  /// `path`: for messages.
  ///   fails  Value: cut short, damaged, or more values than its size explains. Unsupported:
  ///          another opcode; a class that is not known. With the opcode's name and its byte
  static Pickle read(std::string path, std::string bytes, const PickleRules& rules);
  PickleValue root() const { return {this, root_}; }
  /// Whether some class in it is not known.
  bool has_others() const { return has_others_; }
  const std::string& path() const { return path_; }

 private:
  friend class PickleValue;
  friend struct PickleNodes;
  // `data`: the number itself, or where text, class or entries are; `count`: how many.
  struct Node {
    PickleKind kind = PickleKind::kNone;
    bool known = true;
    std::uint32_t count = 0;
    std::uint64_t data = 0;
  };
  const Node& node(std::uint32_t index) const { return nodes_[index]; }

  std::string path_, bytes_;
  std::deque<Node> nodes_;
  // Nodes by number: entries of lists and tuples, keys and values of dicts by turns; of a record
  // its class, arguments, state and further entries, 0 for none.
  std::deque<std::uint32_t> entries_;
  std::vector<std::string> classes_;
  std::uint32_t root_ = 0;
  bool has_others_ = false;
};

}  // namespace shardlab
