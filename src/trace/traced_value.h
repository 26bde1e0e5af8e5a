// traced_value.h - replaces an object of the program while it is captured: a tensor, a number, the
// world, a type of placements, a placement, a mesh, a process group (T-2). It answers from its
// object, and its answers are part of the graph: folded, and guarded where it has a source. One
// table for each kind lists its members (traced_members.h); all others break the graph, with an
// error that names kind and member (T-6).
//
//   Tracing tracing;
//   const TracedValue mesh = tracing.wrap(layout, Source::input("arg0").attribute("mesh"));
//   const TracedValue size = mesh.call_method("size", {});    // a constant; tracing.guards(): mesh
//
// Everything here is used by its rank alone. Values live no longer than their Tracing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trace/graph.h"
#include "trace/graph_break.h"
#include "trace/host_objects.h"

namespace shardlab {

/// The origin of a traced value: a path that begins at an input or a global name and continues by
/// attributes (T-3). A value that a program makes while it is captured has no source, and needs no
/// guard.
class Source {
 public:
  /// "arg0".
  static Source input(std::string name) { return Source(std::move(name)); }
  /// "global.group".
  static Source global(std::string_view name) { return Source("global").attribute(name); }
  /// "arg0.mesh".
  Source attribute(std::string_view name) const { return Source(path_ + "." + std::string(name)); }

  const std::string& text() const { return path_; }
  bool operator==(const Source&) const = default;

 private:
  explicit Source(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Data that the hooks of modules need when backward runs: one object for each graph. It is empty
/// while the forward part is captured, an input of the backward part, and filled when the forward
/// part is complete (T-49). Used by one rank.
class BackwardState {
 public:
  /// Takes an object under the prefix and the number of those before: "mod0", "hook1".
  ///   fails  Internal: the name is taken
  std::string add(std::string_view prefix, HostObject object);
  /// In the order in which they were added.
  std::vector<std::string> names() const;
  /// The forward part is complete: from now on get() works.
  void fill() { filled_ = true; }
  ///   fails  Internal: it is still empty, or has no such name
  const HostObject& get(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    HostObject object;
  };
  std::vector<Entry> entries_;
  bool filled_ = false;
};

/// A step of a graph that makes or uses a backward hook.
struct HookNode {
  std::string name;                         ///< "backward_hook", "setup_input_hook", ...
  std::vector<std::string> state;           ///< backward_hook: names in the backward state
  std::int64_t hook = -1;                   ///< of the others: the node that made it
  std::vector<DTensor> arguments, results;  ///< of the others
};

class Emitter;
struct BackwardHook;
class TracedValue;
class Tracing;

/// A question about an object while a program was captured, whose answer became a constant.
struct Fold {
  std::string object;    ///< its source, or else an expression that makes it
  std::string member;    ///< with arguments: get_local_rank("tp")
  std::string value;     ///< the answer, as an expression
  bool by_rank = false;  ///< other ranks may get another one (T-41)
  std::int32_t line = 0;
  bool operator==(const Fold&) const = default;
};

enum class TracedKind : std::uint8_t {
  kTensorProxy,
  kConstant,
  kEnumConstant,
  kWorldMeta,
  kPlacementType,
  kPlacement,
  kDeviceMesh,
  kProcessGroup,
  kBackwardHook,
  kBoundMethod,
};
inline constexpr std::size_t kTracedKinds = 10;
/// "tensor", "constant", "device mesh", ...
std::string_view to_string(TracedKind kind);

/// The value at capture, where that is a constant. Equal where the objects are: placements with
/// their types, meshes by layout, groups by identity (T-61).
using TracedConstant = std::variant<Argument, EnumConstant, const PlacementType*, PlacementObject,
                                    const MeshLayout*, const ProcessGroup*>;

/// A tensor, which the recorder knows, or the node of a backward hook.
struct TracedProxy {
  DTensor value;
  std::int64_t hook_node = -1;
};

struct TracedCall;

class TracedValue {
 public:
  TracedKind kind() const;
  /// The type of the object: "Shard", "DeviceMesh", "int" (T-8).
  std::string type_name() const;
  const std::optional<Source>& source() const { return source_; }

  /// The object. From here on the graph depends on it (T-56).
  ///   fails  graph break: it has no constant form (T-18)
  TracedConstant as_constant() const;
  /// The same of a number, text or list.
  const Argument& as_argument() const;
  /// Its counterpart in the graph.
  ///   fails  graph break: it is not a value of a graph (T-42)
  TracedProxy as_proxy() const;

  //   fail  graph break: a member that no table lists (T-6), arguments that are not constant
  //         (T-23). Else as the object does
  TracedValue get_attr(std::string_view name) const;
  TracedValue call(const TracedCall& call) const;
  TracedValue call_method(std::string_view name, const TracedCall& call) const;

  /// Describes how to make an equal object (T-25, T-60).
  ///   fails  graph break: this is not known for the object
  void reconstruct(Emitter& emitter) const;
  /// The hash of the object; every value has one (T-10).
  std::uint64_t hash() const;
  /// Whether both constants are equal (T-11).
  ///   fails  graph break: one has no constant form
  bool equals(const TracedValue& other) const;

 private:
  friend class Tracing;
  friend struct TracedObject;
  struct Bound {
    std::shared_ptr<const TracedValue> self;
    std::string method;
  };
  // In the order of TracedKind. A placement is shared: setting its fields sets them for all names
  // that it has.
  using Object = std::variant<DTensor, Argument, EnumConstant, WorldMeta, const PlacementType*,
                              std::shared_ptr<PlacementObject>, const MeshLayout*, ProcessGroup*,
                              std::shared_ptr<const BackwardHook>, Bound>;

  TracedValue(Tracing& tracing, Object object, std::optional<Source> source)
      : tracing_(&tracing), object_(std::move(object)), source_(std::move(source)) {}

  TracedValue ask(const struct TracedMember& member, const TracedCall& call) const;
  TracedValue bound(std::string_view method) const;
  std::optional<TracedConstant> constant() const;
  void guard() const;

  Tracing* tracing_;
  Object object_;
  std::optional<Source> source_;
};

/// Arguments as the program gave them.
struct TracedCall {
  std::vector<TracedValue> positional;
  std::vector<std::pair<std::string, TracedValue>> keywords;
};

/// Facts about the surroundings of a capture.
struct TraceOptions {
  std::string backend;    ///< the backend that process groups report
  bool backward = false;  ///< backward is captured, too: hooks of modules need it (T-48)
};

/// The values of one capture on one rank, and the facts on which the graph depends by their
/// answers.
class Tracing {
 public:
  explicit Tracing(TraceOptions options = {}) : options_(std::move(options)) {}
  Tracing& operator=(Tracing&&) = delete;

  /// Stands in for an object: a DTensor, an Argument, an EnumConstant, or one of those that
  /// host_objects.h recognises.
  ///   fails  graph break: no rank runs here (T-7), or an object of another type
  TracedValue wrap(HostObject object, std::optional<Source> source = std::nullopt);
  /// A number, text or list that the program makes.
  TracedValue constant(Argument value);

  const TraceOptions& options() const { return options_; }
  /// Each once, in the order in which they were needed (T-4).
  const std::vector<Guard>& guards() const { return guards_; }
  /// All questions about objects, in order.
  const std::vector<Fold>& folds() const { return folds_; }
  /// Objects made on the way, in order: replay makes them again (T-62).
  const std::vector<std::string>& setup_actions() const { return setup_actions_; }
  /// All steps with backward hooks, in order (backward_hooks.h).
  const std::vector<HookNode>& hook_nodes() const { return hook_nodes_; }
  /// The additional input of backward.
  BackwardState& backward_state() { return backward_state_; }
  /// All that were thrown.
  const std::vector<GraphBreak>& breaks() const { return breaks_; }

  // For the tables of members.
  void guard(Guard guard);
  void guard(Guard::Kind kind, const Source& source, std::string expected);
  void fold(Fold fold);
  /// Makes a mesh through the rank's calls, where it is not made yet; every rank of the world does.
  void construct(const MeshLayout* layout, std::string action);
  /// The same for dims over which one collective may run.
  void flatten(const MeshLayout* layout);
  std::int64_t add_node(HookNode node);
  TracedValue hook_value(std::shared_ptr<const BackwardHook> hook);
  [[noreturn]] void break_graph(GraphBreak reason);
  /// T-6.
  [[noreturn]] void refuse_member(std::string_view kind, std::string_view member,
                                  const std::vector<std::string>& listed);

 private:
  TraceOptions options_;
  std::vector<Guard> guards_;
  std::vector<Fold> folds_;
  std::vector<std::string> setup_actions_;
  std::vector<HookNode> hook_nodes_;
  BackwardState backward_state_;
  std::vector<GraphBreak> breaks_;
};

/// A group as guards state it: "tp on ranks 0,1".
std::string group_fact(const ProcessGroup& group);

}  // namespace shardlab
