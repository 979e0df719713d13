#include "sim/cost/estimate/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct NamedPart {
  std::string_view name;
  Recompute::Part part;
  std::string_view what;  // that a model may lack
};
constexpr NamedPart named_parts[] = {
    {"attention", &Recompute::attention, "attention"},
    {"norms", &Recompute::norms, "norms"},
    {"activation", &Recompute::activation, "activation between GEMMs of a block"},
    {"products", &Recompute::products, "GEMMs other than its one"},
    {"latent", &Recompute::latent, "latent attention"},
    {"mlp", &Recompute::mlp, "MLP"},
    {"shared", &Recompute::shared, "shared experts"},
    {"experts", &Recompute::experts, "experts"}};

// "attention, norms, ... and experts".
std::string all_names() {
  std::string names;
  for (const NamedPart& one : named_parts) {
    if (!names.empty()) names += &one + 1 == std::end(named_parts) ? " and " : ", ";
    names += one.name;
  }
  return names;
}

bool has_part(const Model& model, Recompute::Part part) {
  const auto any = [&](bool with_experts) {
    return std::ranges::any_of(
        model.kinds, [&](const BlockKind& kind) { return kind.has_experts == with_experts; });
  };
  if (part == &Recompute::latent) return model.latent.has_value();
  if (part == &Recompute::shared) return model.shared_size > 0;
  if (part == &Recompute::experts) return any(true);
  if (part == &Recompute::mlp) return model.is_decoder() && any(false);
  return model.is_decoder();
}

std::vector<std::string_view> part_names(const Recompute& recompute) {
  std::vector<std::string_view> names;
  for (const NamedPart& one : named_parts) {
    if (recompute.*one.part) names.push_back(one.name);
  }
  return names;
}

}  // namespace

Recompute parse_recompute(std::string_view text) {
  Recompute result;
  const std::vector<std::string_view> names = split(text, ',');
  for (const std::string_view given : names) {
    const bool is_counted = given.starts_with("full:");
    const std::string_view name = is_counted ? "full" : given;
    if (name == "none" || name == "full") {
      if (names.size() > 1) {
        throw input_error(
            fmt::format("--recompute {}: {} excludes all others; give it alone, or some of {}",
                        printable(text), name, all_names()));
      }
      result.full = name == "full";
      if (is_counted) result.blocks = parse_count(given.substr(5), "--recompute full:N");
      continue;
    }
    const std::string_view meant = name == "selective" ? "attention" : name;
    const auto* const found = std::ranges::find(named_parts, meant, &NamedPart::name);
    if (found == std::end(named_parts)) {
      std::vector<std::string> known{"none", "selective", "full"};
      for (const NamedPart& one : named_parts) known.emplace_back(one.name);
      throw input_error(fmt::format("--recompute: {}", unknown_name("recomputation", name, known)));
    }
    if (result.*found->part) {
      throw input_error(fmt::format(
          "--recompute {}: {} is given twice; give {} at most once each{}", printable(text), meant,
          all_names(), meant == "attention" ? " (selective is another name for attention)" : ""));
    }
    result.*found->part = true;
  }
  return result;
}

std::string recompute_name(const Recompute& recompute) {
  if (recompute.full && recompute.blocks > 0) return fmt::format("full:{}", recompute.blocks);
  if (recompute.full) return "full";
  if (recompute == Recompute()) return "none";
  if (recompute == Recompute{.attention = true}) return "selective";
  return fmt::format("{}", fmt::join(part_names(recompute), ","));
}

std::string recompute_words(const Recompute& recompute) {
  const std::vector<std::string_view> names = part_names(recompute);
  std::string words;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) words += i + 1 == names.size() ? " and " : ", ";
    words += names[i];
  }
  return words;
}

void check_recompute(const Recompute& recompute, const Model& model) {
  if (recompute.exists() && model.is_listed()) {
    throw input_error(
        fmt::format("--recompute {}: {} is a list of layers, whose backward times are given; "
                    "valid: none",
                    recompute_name(recompute), model.name));
  }
  for (const NamedPart& one : named_parts) {
    if (!(recompute.*one.part) || has_part(model, one.part)) continue;
    throw input_error(
        fmt::format("--recompute {}: {} has no {} to compute again; nearest valid: none and full",
                    recompute_name(recompute), model.name, one.what));
  }
}

}  // namespace pipesim
