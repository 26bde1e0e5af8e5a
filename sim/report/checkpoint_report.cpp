// Lines are folded by the numbers in names: of the layers of a model one is told.
#include "sim/report/checkpoint_report.h"

#include <map>
#include <set>

#include "base/text.h"
#include "sim/files/json_value.h"
#include "sim/report/holdings.h"
#include "sim/report/text_table.h"

namespace shardlab {

namespace {

std::string plain(std::string_view text) { return escaped_text(text, "\\x{:02x}"); }

// Lines that are equal but for the numbers of a name, in the order of the first of each.
class Folded {
 public:
  /// `names`: columns have names, too, whose numbers are those of the first.
  explicit Folded(bool full, bool names = false) : full_(full), names_(names) {}
  void add(const std::string& name, const std::vector<std::string>& columns) {
    std::string key = full_ ? name : name_pattern(name);
    for (const std::string& column : columns)
      key += "\n" + (names_ ? name_pattern(column) : column);
    const auto [found, fresh] = places_.emplace(key, rows_.size());
    if (fresh) rows_.push_back({name, columns, 0});
    ++rows_[found->second].times;
  }
  std::string text() const {
    std::vector<TableRow> rows;
    for (const Row& row : rows_) {
      TableRow& cells = rows.emplace_back(row.columns);
      for (std::string& cell : cells) cell = names_ && row.times > 1 ? name_pattern(cell) : cell;
      cells.insert(cells.begin(), plain(row.times > 1 ? name_pattern(row.name) : row.name));
      if (row.times > 1) cells.push_back(fmt::format("x {}", row.times));
    }
    return text_table(rows, "<", "  ");
  }

 private:
  struct Row {
    std::string name;
    std::vector<std::string> columns;
    int times;
  };
  bool full_, names_;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> places_;
};

std::string fault_text(const Checkpoint& checkpoint, const StoredTensor& tensor,
                       const PieceFault& fault) {
  if (fault.pieces.empty()) return fmt::format("no piece has {}", text_of(fault.box));
  std::vector<std::string> files;
  for (const std::size_t piece : fault.pieces)
    files.push_back(plain(checkpoint.files()[tensor.pieces[piece].file]));
  return fmt::format("{} is in {}", text_of(fault.box), text_of_list(files, " and in "));
}

std::string files_text(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  std::set<std::string> files;
  for (const StoredPiece& piece : tensor.pieces)
    files.insert(plain(checkpoint.files()[piece.file]));
  return files.size() > 2 ? fmt::format("{} files", files.size()) : text_of_list(files, ", ");
}

std::string mistake_text(const CheckpointMistake& mistake) {
  std::string text = mistake.id + (mistake.told.empty() ? "" : "; " + plain(mistake.told));
  if (!mistake.also.empty())
    text += fmt::format(" (the same as {})", text_of_list(mistake.also, ", "));
  return text;
}

std::string difference_text(const TensorDifference& one) {
  std::string text = one.a == one.b ? one.a : fmt::format("{} in A, {} in B", one.a, one.b);
  const DifferenceCounts& counts = one.counts;
  if (counts.differ > 0) {
    text += fmt::format(
        "  {} elements differ: {} are elsewhere in A ({} of these twice in B), {} are zero",
        counts.differ, counts.moved, counts.twice, counts.zero);
  }
  text += "\n    ";
  if (one.mistake) return text + mistake_text(*one.mistake);
  return text + (one.wrong.empty()
                     ? "nothing explains it"
                     : "nothing explains all of it: dim 0 at " +
                           (one.wrong.size() > 400 ? one.wrong.substr(0, 400) + "..." : one.wrong));
}

}  // namespace

std::string checkpoint_text(const Checkpoint& checkpoint, bool full) {
  std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> totals;
  std::int64_t bytes = 0;
  Folded tensors(full), objects(full), faults(full);
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    tensors.add(tensor.name,
                {tensor.text(), bytes_text(static_cast<double>(tensor.bytes())),
                 counted(std::ssize(tensor.pieces), "piece"), files_text(checkpoint, tensor)});
    auto& [count, of_type] = totals[tensor.type == nullptr ? "not read" : tensor.type->name];
    ++count;
    of_type += tensor.bytes();
    bytes += tensor.bytes();
    for (const PieceFault& fault : faults_of(tensor))
      faults.add(tensor.name, {fault_text(checkpoint, tensor, fault)});
  }
  for (const StoredObject& object : checkpoint.objects()) {
    const std::string text = checkpoint.print(object);
    objects.add(object.name, {text.size() > 60 && !full ? text.substr(0, 60) + "..." : text});
  }
  std::string text = fmt::format("{}: {}, {}, {}, {}\n", checkpoint.path(), checkpoint.format(),
                                 counted(std::ssize(checkpoint.files()), "file"),
                                 counted(std::ssize(checkpoint.tensors()), "tensor"),
                                 bytes_text(static_cast<double>(bytes)));
  text += tensors.text() + "\n";
  for (const auto& [type, sum] : totals)
    text += fmt::format("  {:8} {}, {}\n", type, counted(sum.first, "tensor"),
                        bytes_text(static_cast<double>(sum.second)));
  if (!checkpoint.objects().empty()) text += "\nobjects\n" + objects.text();
  if (const std::string wrong = faults.text(); !wrong.empty())
    text += "\nholes and overlaps\n" + wrong;
  if (!checkpoint.notes().empty()) text += "\n";
  for (const std::string& note : checkpoint.notes()) text += "note: " + plain(note) + "\n";
  return text;
}

std::string checkpoint_json(const Checkpoint& checkpoint) {
  Json tensors = Json::array(), objects = Json::array(), faults = Json::array();
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    Json pieces = Json::array();
    for (const StoredPiece& piece : tensor.pieces) {
      const std::int64_t rank = checkpoint.rank_of(piece.file);
      pieces.push_back({{"offset", piece.box.from},
                        {"shape", piece.box.shape},
                        {"file", checkpoint.files()[piece.file]},
                        {"rank", rank < 0 ? Json() : Json(rank)}});
    }
    tensors.push_back({{"name", tensor.name},
                       {"type", tensor.text()},
                       {"bytes", tensor.bytes()},
                       {"pieces", std::move(pieces)}});
    for (const PieceFault& fault : faults_of(tensor)) {
      faults.push_back({{"tensor", tensor.name},
                        {"offset", fault.box.from},
                        {"shape", fault.box.shape},
                        {"pieces", fault.pieces}});
    }
  }
  for (const StoredObject& object : checkpoint.objects())
    objects.push_back({{"name", object.name}, {"text", checkpoint.print(object)}});
  return json_line({{"path", checkpoint.path()},
                    {"format", checkpoint.format()},
                    {"files", checkpoint.files()},
                    {"tensors", std::move(tensors)},
                    {"objects", std::move(objects)},
                    {"faults", std::move(faults)},
                    {"notes", checkpoint.notes()}});
}

std::string stored_tensor_text(const Checkpoint& checkpoint, const StoredTensor& tensor,
                               const DrawOptions& options) {
  std::vector<Holding> holdings;
  std::string table;
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    const StoredPiece& piece = tensor.pieces[i];
    const std::int64_t rank = checkpoint.rank_of(piece.file);
    Holding holding{};
    holding.rank = rank < 0 ? static_cast<std::int64_t>(i) : rank;
    holding.shape = piece.box.shape;
    holding.offset = piece.box.from;
    for (std::size_t dim = 0; dim < piece.box.from.size(); ++dim)
      holding.view.dims.push_back({{{piece.box.from[dim], piece.box.shape[dim]}}});
    holdings.push_back(std::move(holding));
    table += fmt::format("  {:>4}  {}  {}\n", holdings.back().rank, text_of(piece.box),
                         plain(checkpoint.files()[piece.file]));
  }
  std::string text = fmt::format("{} {}, {}\n", plain(tensor.name), tensor.text(),
                                 counted(std::ssize(tensor.pieces), "piece"));
  text += draw_holdings(tensor.shape, holdings, options) + "\n  rank  indices  file\n" + table;
  for (const PieceFault& fault : faults_of(tensor))
    text += "\n  " + fault_text(checkpoint, tensor, fault) + "\n";
  return text;
}

std::string comparison_text(const CheckpointComparison& comparison, const std::string& command) {
  std::string text = fmt::format("equal      {}, {}\n", counted(comparison.equal, "tensor"),
                                 bytes_text(static_cast<double>(comparison.equal_bytes)));
  Folded differences(false), lone(false, true);
  for (const TensorDifference& one : comparison.differences)
    differences.add(one.name, {difference_text(one)});
  for (const LoneTensor& one : comparison.lone) {
    std::string more = one.same.empty() ? "" : ", equal to " + plain(one.same);
    if (!one.near.empty() && one.near != one.same) more += ", like " + plain(one.near);
    const std::string place = one.in_a ? "in A alone" : "in B alone";
    lone.add(one.name, {one.type, place + more});
  }
  if (!comparison.differences.empty())
    text += fmt::format("different  {}\n{}", counted(std::ssize(comparison.differences), "tensor"),
                        differences.text());
  text += lone.text();
  for (const std::string& line : comparison.others) text += "  " + plain(line) + "\n";
  std::string edits;
  for (const Edit& edit : comparison.repairs) edits += " " + edit.command();
  if (!edits.empty())
    text += fmt::format("\n{}: {}{}\n",
                        comparison.mended ? "this makes B right, as a trial has shown"
                                          : "this makes B right in part",
                        command, edits);
  return text;
}

std::string comparison_json(const CheckpointComparison& comparison) {
  Json differences = Json::array(), lone = Json::array(), repairs = Json::array();
  for (const TensorDifference& one : comparison.differences) {
    Json json = {{"name", one.name},
                 {"a", one.a},
                 {"b", one.b},
                 {"tried", one.tried},
                 {"differ", one.counts.differ},
                 {"moved", one.counts.moved},
                 {"twice", one.counts.twice},
                 {"zero", one.counts.zero}};
    if (!one.wrong.empty()) json["wrong"] = one.wrong;
    if (one.mistake)
      json["mistake"] = {
          {"id", one.mistake->id}, {"told", one.mistake->told}, {"also", one.mistake->also}};
    differences.push_back(std::move(json));
  }
  for (const LoneTensor& one : comparison.lone)
    lone.push_back({{"name", one.name},
                    {"type", one.type},
                    {"in", one.in_a ? "a" : "b"},
                    {"same", one.same},
                    {"near", one.near}});
  for (const Edit& edit : comparison.repairs) repairs.push_back(edit.command());
  return json_line({{"ok", comparison.ok()},
                    {"equal", comparison.equal},
                    {"equal_bytes", comparison.equal_bytes},
                    {"different", std::move(differences)},
                    {"lone", std::move(lone)},
                    {"others", comparison.others},
                    {"edits", std::move(repairs)}});
}

}  // namespace shardlab
