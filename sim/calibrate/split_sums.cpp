#include "sim/calibrate/split_sums.h"

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "sim/cost/estimate/operators.h"
#include "sim/cost/model.h"

namespace pipesim {

std::vector<double> parameters_of(const RunDescription& about) {
  if (about.model_json.empty()) return {};
  const Model model = parse_model(about.model_json, "the model of a trace");
  if (static_cast<std::size_t>(model.layers()) != about.layers.size()) return {};
  std::vector<double> result(about.layers.size());
  for (int i = 0; i < model.layers(); ++i) {
    result[static_cast<std::size_t>(i)] =
        static_cast<double>(rank_parameters(model, i, about.tensor_parallel));
  }
  return result;
}

std::vector<std::pair<std::size_t, std::size_t>> entries_of_stages(const RunDescription& about,
                                                                   bool by_layer) {
  std::vector<std::pair<std::size_t, std::size_t>> result;
  std::size_t next = 0;
  for (std::size_t s = 0; s < about.rank_of_stage.size(); ++s) {
    const std::size_t count = by_layer ? static_cast<std::size_t>(about.layout[s]) : 1;
    result.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

Placement placement_of(const RecordedRun& run) {
  return Placement(run.about.rank_of_stage, run.about.rank_of_second,
                   run.about.rank_of_second.empty() ? 0 : run.microbatches);
}

Dealer::Dealer(const RunDescription& about, bool by_layer, const std::vector<StageCosts>& entries)
    : by_layer_(by_layer) {
  std::map<std::string, std::size_t> kinds;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string name = by_layer ? about.layers[i] : std::to_string(i);
    if (by_layer) name.resize(name.find_last_not_of("0123456789 ") + 1);
    kind_of_.push_back(kinds.emplace(name, kinds.size()).first->second);
  }
  kinds_ = kinds.size();
  std::vector<double> count(kinds_);
  times_.resize(kinds_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    count[kind_of_[i]] += 1;
    times_[kind_of_[i]] += static_cast<double>(entries[i].forward_ns);
  }
  parameters_ = times_;
  const std::vector<double> known = by_layer ? parameters_of(about) : std::vector<double>();
  knows_parameters_ = !known.empty();
  if (knows_parameters_) {
    parameters_.assign(kinds_, 0);
    for (std::size_t i = 0; i < entries.size(); ++i) parameters_[kind_of_[i]] += known[i];
  }
  for (auto* usual : {&times_, &parameters_}) {
    for (std::size_t k = 0; k < kinds_; ++k) (*usual)[k] /= count[k];
  }
}

bool Dealer::determined_by(const std::vector<PartsSum>& sums) const {
  std::set<std::vector<std::pair<std::size_t, double>>> different;
  for (const PartsSum& sum : sums) different.insert(sum.counts);
  return different.size() >= kinds_;
}

Dealer::Sums Dealer::sums_of(const RunDescription& about) const {
  Sums sums(*this);
  sums.entries_ = entries_of_stages(about, by_layer_);
  for (std::size_t s = 0; s < about.rank_of_stage.size(); ++s) {
    for (const auto* homes : {&about.rank_of_stage, &about.rank_of_second}) {
      if (homes->empty()) continue;
      const auto rank = static_cast<std::size_t>((*homes)[s]);
      if (rank >= sums.stages_.size()) sums.stages_.resize(rank + 1);
      sums.stages_[rank].push_back(s);
    }
  }
  return sums;
}

void Dealer::Sums::count(std::size_t stage, Kinds& kinds) const {
  const auto [first, last] = entries_[stage];
  for (std::size_t i = first; i < last; ++i) kinds[dealer_.kind_of_[i]] += 1;
}

PartsSum Dealer::Sums::of_stage(std::size_t stage, double sum) const {
  Kinds kinds;
  count(stage, kinds);
  return {{kinds.begin(), kinds.end()}, sum};
}

PartsSum Dealer::Sums::of_rank(std::size_t rank, double sum) const {
  Kinds kinds;
  for (const std::size_t stage : stages_[rank]) count(stage, kinds);
  return {{kinds.begin(), kinds.end()}, sum};
}

void Dealer::deal(const std::vector<PartsSum>& sums, By by, std::int64_t StageCosts::*field,
                  std::vector<StageCosts>& entries) const {
  const std::vector<double> parts = deal_out(sums, by == By::time ? times_ : parameters_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].*field = std::llround(parts[kind_of_[i]]);
  }
}

}  // namespace pipesim
