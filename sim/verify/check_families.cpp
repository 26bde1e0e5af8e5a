#include <nlohmann/json.hpp>

#include "sim/verify/layout_facts.h"

namespace shardlab {
namespace {

using CheckLine = void (*)(Arena&, const Json&, CaseReport&);

/// Files whose lines need nothing but an arena.
template <CheckLine kLine>
class LineChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override { kLine(arena_, fact, report); }

 private:
  Arena arena_;
};

template <CheckLine kLine>
std::unique_ptr<FactChecker> make_line(std::string_view) {
  return std::make_unique<LineChecker<kLine>>();
}

/// True when the first line is an object with this field.
bool has(const Json& first, const char* field) {
  return first.is_object() && first.contains(field);
}

// Told apart by a field that only this kind of file has, so that a renamed file is still taken.
constexpr CheckFamily kFamilies[] = {
    {"layout/device_mesh",
     [](std::string_view, const Json& first) { return has(first, "bad_slice"); },
     make_line<check_device_mesh>},
    {"layout/global_info",
     [](std::string_view, const Json& first) { return has(first, "global_stride"); },
     make_line<check_global_info>},
    {"layout/local_shape_offset",
     [](std::string_view, const Json& first) {
       return has(first, "local_shape") && has(first, "offset");
     },
     make_line<check_local_shape_offset>},
    {"layout/shard_orders",
     [](std::string_view, const Json& first) { return has(first, "as_strided"); },
     make_line<check_shard_order>},
    {"layout/shard_size_offset",
     [](std::string_view, const Json& first) {
       return has(first, "chunks") && has(first, "offset");
     },
     make_line<check_shard_size_offset>},
    {"layout/split_tensor",
     [](std::string_view, const Json& first) { return has(first, "with_padding"); },
     make_line<check_split_tensor>},
    {"layout/strided_decode",
     [](std::string_view, const Json& first) { return has(first, "spec_order"); },
     make_line<check_strided_decode>},
    {"layout/strided_shard",
     [](std::string_view, const Json& first) { return has(first, "split_factor"); },
     make_line<check_strided_shard>},
    {"layout/text_and_equality",
     [](std::string_view, const Json& first) {
       return has(first, "is_shard") || has(first, "hash_equal");
     },
     make_line<check_text_and_equality>},
};

}  // namespace

std::span<const CheckFamily> check_families() { return kFamilies; }

}  // namespace shardlab
