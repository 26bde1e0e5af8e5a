#include "sim/proof/proof_text.h"

#include <algorithm>

#include "base/text.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

std::string mesh_text(const Dims& mesh) { return text_of_list(mesh, ","); }

std::string command_of(const WrongCall& call) {
  return fmt::format("shardlab verify-ops {} --mesh {} --placements \"{}\"", call.op,
                     mesh_text(call.mesh), placing_text(call.placing));
}

std::string wrong_text(const WrongCall& call) {
  const std::string text =
      fmt::format("    wrong    on a mesh of {} with ({}): {}\n", text_of_list(call.mesh, " x "),
                  placing_text(call.placing), call.what);
  return text + fmt::format("             {}\n", call.form.empty() ? command_of(call) : call.form);
}

}  // namespace

ProofSums sums_of(const std::vector<OpProof>& proofs) {
  ProofSums sums;
  std::vector<std::int64_t> forms;
  for (const OpProof& proof : proofs) {
    sums.tried += proof.tried;
    sums.right += proof.right;
    sums.silent += proof.silent;
    sums.wrong += proof.wrong;
    sums.refused += proof.refused;
    sums.rows_judged += proof.rows_judged;
    sums.forms.forms += proof.forms.forms;
    sums.forms.refused += proof.forms.refused;
    sums.forms.calls += proof.forms.calls;
    if (!proof.unproven.empty()) ++sums.unproven;
    if (proof.forms.forms > 0) forms.push_back(proof.forms.forms);
  }
  if (!forms.empty()) {
    const auto middle = forms.begin() + std::ssize(forms) / 2;
    std::ranges::nth_element(forms, middle);
    sums.median_forms = *middle;
  }
  return sums;
}

std::string proof_text(const std::vector<OpProof>& proofs, bool details) {
  std::string out = fmt::format("{:<44} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", "op", "tried",
                                "right", "silent", "refused", "wrong", "missing");
  for (const OpProof& proof : proofs) {
    out += fmt::format("{:<44} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}\n", proof.op, proof.tried,
                       proof.right, proof.silent, proof.refused, proof.wrong, proof.missing.size());
    if (proof.least) out += wrong_text(*proof.least);
    if (!proof.unproven.empty()) {
      out += fmt::format("    NOT PROVEN: {}\n", proof.unproven);
    }
    if (!details) continue;
    for (const auto& [reason, times] : proof.reasons) {
      out += fmt::format("    refused  {} times: {}\n", times, reason);
    }
    for (const std::string& why : proof.without_gradient) {
      out += fmt::format("    forward  only, for an input: {}\n", why);
    }
    for (const std::string& row : proof.missing) out += fmt::format("    missing  {}\n", row);
  }
  const ProofSums sums = sums_of(proofs);
  out += fmt::format(
      "{} ops: {} calls tried, {} right ({} of them silent: forward sends nothing), {} refused, {} "
      "wrong{}\n",
      proofs.size(), sums.tried, sums.right, sums.silent, sums.refused, sums.wrong,
      sums.unproven == 0 ? "" : fmt::format("; {} ops are not proven", sums.unproven));
  if (sums.rows_judged > 0) {
    out += fmt::format(
        "{} rows judged: placements of the inputs and of one result, on meshes of one "
        "dim\n",
        sums.rows_judged);
  }
  if (sums.forms.forms > 0) {
    out += fmt::format(
        "{} other forms of calls, {} of an op in the median: {} calls tried, {} forms refused by "
        "one device\n",
        sums.forms.forms, sums.median_forms, sums.forms.calls, sums.forms.refused);
  }
  return out;
}

std::string proof_json(const std::vector<OpProof>& proofs) {
  nlohmann::json list = nlohmann::json::array();
  for (const OpProof& proof : proofs) {
    nlohmann::json one = {{"op", proof.op},
                          {"tried", proof.tried},
                          {"right", proof.right},
                          {"silent", proof.silent},
                          {"refused", proof.refused},
                          {"wrong", proof.wrong},
                          {"reasons", proof.reasons},
                          {"missing", proof.missing},
                          {"rows_judged", proof.rows_judged},
                          {"forms", proof.forms.forms},
                          {"forms_refused", proof.forms.refused},
                          {"unproven", proof.unproven},
                          {"without_gradient", proof.without_gradient}};
    if (proof.least) {
      one["least"] = {{"mesh", proof.least->mesh},
                      {"placements", placing_text(proof.least->placing)},
                      {"what", proof.least->what},
                      {"form", proof.least->form},
                      {"command", command_of(*proof.least)}};
    }
    list.push_back(std::move(one));
  }
  return list.dump();
}

}  // namespace shardlab
