// A dim of one rank has a link that nothing uses.
#include "sim/report/links.h"

#include <algorithm>
#include <utility>

namespace shardlab {

std::vector<LinkUsed> links_of(const MeshLayout& layout, const Topology& topology) {
  std::vector<LinkUsed> links;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (layout.size(dim) == 1) continue;
    const std::string& name = layout.names()[dim];
    links.push_back({name, topology.link(layout, dim), topology.links.contains(name)});
  }
  return links;
}

std::string links_text(const std::vector<LinkUsed>& links) {
  std::vector<std::pair<std::string, std::string>> texts;  // a link, its dims
  for (const LinkUsed& used : links) {
    const std::string text = fmt::format("{:.3g} GB/s, {:.3g} us a hop{}", used.link.gbps,
                                         used.link.us, used.given ? "" : " (assumed)");
    auto same = std::ranges::find(texts, text, &std::pair<std::string, std::string>::first);
    if (same == texts.end()) same = texts.insert(texts.end(), {text, ""});
    same->second += (same->second.empty() ? "" : ", ") + used.mesh_dim;
  }
  std::string all;
  for (const auto& [link, dims] : texts) {
    all += fmt::format("{}{} {}", all.empty() ? "" : "; ", dims, link);
  }
  return all;
}

}  // namespace shardlab
