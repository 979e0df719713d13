#include "sim/calibrate/save_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/calibrate/samples.h"
#include "sim/calibrate/split_sums.h"

namespace pipesim {
namespace {

// A rank's part of a checkpoint.
struct SavePart {
  std::int64_t start_ns = 0, end_ns = 0;  // of the write, until its rank has finished it
  std::int64_t copy_ns = 0;
  std::int64_t bytes = 0;
  bool exists = false;
};

// The checkpoints of a run at their median, by rank.
struct TypicalSave {
  std::vector<std::int64_t> starts_ns;  // after the first
  std::vector<std::int64_t> ends_ns;    // likewise
  std::vector<std::int64_t> bytes;
  std::int64_t writers = 1;
  std::int64_t checkpoints = 0;
  bool copies = false;
  std::vector<std::int64_t> copy_ns;
};

// By iteration, then rank.
std::map<std::int32_t, std::vector<SavePart>> parts_of(const RecordedRun& run) {
  std::map<std::int32_t, std::vector<SavePart>> all;
  std::vector<std::int64_t> through_ns(static_cast<std::size_t>(run.ranks), INT64_MIN);
  std::vector<const Span*> spans;
  for (const Span& span : run.spans) {
    if (span.action.kind == Kind::SAVE) spans.push_back(&span);
  }
  std::ranges::stable_sort(spans, {}, [](const Span* span) { return span->start_ns; });
  for (const Span* span : spans) {
    std::vector<SavePart>& parts = all[span->iteration];
    parts.resize(static_cast<std::size_t>(run.ranks));
    const auto rank = static_cast<std::size_t>(span->rank);
    SavePart& own = parts[rank];
    if (!run.about.saves.beside || is_save_beside(span->action)) {
      own = {span->start_ns, span->end_ns, own.copy_ns, span->bytes, true};
      through_ns[rank] = span->end_ns;
    } else {
      // It may have waited for the previous checkpoint.
      own.copy_ns =
          span->end_ns - std::max(span->start_ns, std::min(through_ns[rank], span->end_ns));
    }
  }
  return all;
}

std::optional<TypicalSave> typical_save(const RecordedRun& run) {
  const auto ranks = static_cast<std::size_t>(run.ranks);
  std::vector<Samples> starts(ranks), ends(ranks), copies(ranks);
  TypicalSave typical;
  typical.writers = run.about.pipelines();
  typical.copies = run.about.saves.beside;
  for (const auto& [iteration, parts] : parts_of(run)) {
    if (!std::ranges::all_of(parts, &SavePart::exists)) continue;
    const std::int64_t first_ns =
        std::ranges::min_element(parts, {}, &SavePart::start_ns)->start_ns;
    ++typical.checkpoints;
    typical.bytes.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      starts[rank].add(parts[rank].start_ns - first_ns);
      ends[rank].add(parts[rank].end_ns - first_ns);
      copies[rank].add(parts[rank].copy_ns);
      typical.bytes.push_back(parts[rank].bytes);
    }
  }
  if (typical.checkpoints == 0) return std::nullopt;
  const auto medians = [](const std::vector<Samples>& samples) {
    std::vector<std::int64_t> values;
    for (const Samples& own : samples) values.push_back(own.quantile(0.5));
    return values;
  };
  typical.starts_ns = medians(starts);
  typical.ends_ns = medians(ends);
  typical.copy_ns = medians(copies);
  return typical;
}

// The unknowns: the time of a byte and of a sync in the storage, and that of publishing.
enum SaveCost : std::size_t { of_byte, of_sync, of_publishing };
constexpr std::size_t unknowns = 3;
using Factors = std::array<double, unknowns>;

// The components of an end, if all ranks begin at once.
Factors factors_of(const TypicalSave& save, std::size_t rank) {
  const auto writers = static_cast<double>(save.writers);
  const std::int64_t own = rank == 0 ? std::ranges::max(save.bytes) : save.bytes[rank];
  Factors factors{0, writers * static_cast<double>(save.bytes.size()), rank == 0 ? 1.0 : 0.0};
  for (const std::int64_t bytes : save.bytes) {
    factors[of_byte] += writers * static_cast<double>(std::min(bytes, own));
  }
  return factors;
}

struct Row {
  Factors factors;
  double end_ns = 0;
};

double times(const Factors& one, const Factors& other) {
  double sum = 0;
  for (std::size_t i = 0; i < unknowns; ++i) sum += one[i] * other[i];
  return sum;
}

double error_of(const std::vector<Row>& rows, const Factors& solution) {
  double sum = 0;
  for (const Row& row : rows) sum += std::pow(times(row.factors, solution) - row.end_ns, 2);
  return sum;
}

// Least squares for some of the unknowns, by Gaussian elimination of the normal equations in units
// of the largest factor; nothing if rows don't separate them.
std::optional<Factors> solve(const std::vector<Row>& rows, const std::vector<std::size_t>& of) {
  const std::size_t n = of.size();
  Factors unit{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < unknowns; ++i) unit[i] = std::max(unit[i], row.factors[i]);
  }
  std::array<std::array<double, unknowns + 1>, unknowns> normal{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < n; ++i) {
      const double own = row.factors[of[i]] / unit[of[i]];
      for (std::size_t j = 0; j < n; ++j) normal[i][j] += own * row.factors[of[j]] / unit[of[j]];
      normal[i][n] += own * row.end_ns;
    }
  }
  constexpr double min_pivot = 1e-3;
  for (std::size_t i = 0; i < n; ++i) {
    if (!(std::abs(normal[i][i]) > min_pivot)) return std::nullopt;
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double factor = normal[j][i] / normal[i][i];
      for (std::size_t k = i; k <= n; ++k) normal[j][k] -= factor * normal[i][k];
    }
  }
  Factors solution{};
  for (std::size_t i = 0; i < n; ++i) {
    solution[of[i]] = normal[i][n] / normal[i][i] / unit[of[i]];
    if (solution[of[i]] < 0) return std::nullopt;
  }
  return solution;
}

// The fewest unknowns that explain as much as any more do.
Factors fit(const std::vector<Row>& rows) {
  const std::vector<std::vector<std::size_t>> choices{
      {of_byte}, {of_byte, of_publishing}, {of_byte, of_sync}, {of_byte, of_sync, of_publishing},
      {of_sync}, {of_sync, of_publishing}};
  constexpr double better = 0.98;  // ratio of errors; allows for rounding
  constexpr double rounding = 4;
  std::optional<Factors> best;
  double least = 0;
  for (const auto& choice : choices) {
    const auto own = solve(rows, choice);
    if (!own) continue;
    const double error = error_of(rows, *own);
    if (best && error >= least * better - rounding) continue;
    best = own;
    least = error;
  }
  return best.value_or(Factors{});
}

SaveCosts costs_of(const Factors& solution, const TypicalSave& save) {
  constexpr double ns_per_second = 1e9;
  constexpr double max_per_second = 1e15;
  SaveCosts costs{.bytes = save.bytes, .writers = save.writers};
  if (solution[of_byte] > 0) {
    const double rate = std::clamp(ns_per_second / solution[of_byte], 1.0, max_per_second);
    costs.bytes_per_second = std::llround(rate);
  }
  costs.sync_ns = std::llround(solution[of_sync]);
  costs.publish_ns = std::llround(solution[of_publishing]);
  return costs;
}

// Ranks that begin later share less: the model, with the values found so far, gives how much their
// ends differ from those of the factors.
Factors fit_with_starts(const std::vector<TypicalSave>& saves) {
  constexpr int max_rounds = 8;
  Factors solution{};
  for (int round = 0; round < max_rounds; ++round) {
    std::vector<Row> rows;
    for (const TypicalSave& save : saves) {
      const SaveCosts costs = costs_of(solution, save);
      const std::vector<std::int64_t> modelled = save_ends_ns(costs, save.starts_ns);
      for (std::size_t rank = 0; rank < save.bytes.size(); ++rank) {
        Row row{factors_of(save, rank), static_cast<double>(save.ends_ns[rank])};
        if (round > 0) {
          row.end_ns -= static_cast<double>(modelled[rank]) - times(row.factors, solution);
        }
        rows.push_back(row);
      }
    }
    const Factors next = fit(rows);
    if (next == solution) break;
    solution = next;
  }
  return solution;
}

// Whether the states of a run's stages make up what its ranks wrote, within 2 %.
bool follow_from_states(const RecordedRun& run, const TypicalSave& save, bool by_layer,
                        const std::vector<StageCosts>& entries) {
  if (run.about.tensor_parallel > 1) return false;
  Costs costs;
  costs.save.emplace();
  const Placement placement = placement_of(run);
  for (const auto& [first, last] : entries_of_stages(run.about, by_layer)) {
    StageCosts& stage = costs.stages.emplace_back();
    for (std::size_t i = first; i < last; ++i) {
      stage.weight_bytes += entries[i].weight_bytes;
      stage.optimizer_bytes += entries[i].optimizer_bytes;
      const std::vector<std::int64_t>& own = entries[i].parameters;
      stage.parameters.insert(stage.parameters.end(), own.begin(), own.end());
    }
  }
  fill_save_bytes(placement, {}, run.about.replicas, 1, costs);
  for (std::size_t rank = 0; rank < save.bytes.size(); ++rank) {
    const auto measured = static_cast<double>(save.bytes[rank]);
    const auto derived = static_cast<double>(costs.save->bytes[rank]);
    if (measured == 0 || std::abs(derived - measured) > 0.02 * measured) return false;
  }
  return true;
}

std::optional<std::int64_t> copy_rate(const std::vector<TypicalSave>& saves) {
  double bytes = 0;
  double time_ns = 0;
  for (const TypicalSave& save : saves) {
    if (!save.copies) continue;
    for (std::size_t rank = 0; rank < save.bytes.size(); ++rank) {
      bytes += static_cast<double>(save.bytes[rank]);
      time_ns += static_cast<double>(save.copy_ns[rank]);
    }
  }
  if (bytes == 0 || time_ns == 0) return std::nullopt;
  return std::llround(std::clamp(bytes * 1e9 / time_ns, 1.0, 1e15));
}

}  // namespace

SaveTimes save_times(std::span<const RecordedRun* const> runs, bool by_layer,
                     const std::vector<StageCosts>& entries) {
  SaveTimes result;
  std::vector<TypicalSave> saves;
  const RecordedRun* first = nullptr;
  for (const RecordedRun* run : runs) {
    std::optional<TypicalSave> own = typical_save(*run);
    if (!own) continue;
    if (first == nullptr) first = run;
    result.checkpoints += own->checkpoints;
    saves.push_back(std::move(*own));
  }
  if (saves.empty()) return result;
  // Background writes share processors with compute; they determine rates only if there are no
  // others.
  std::vector<TypicalSave> undisturbed = saves;
  std::erase_if(undisturbed, &TypicalSave::copies);
  const Factors solution = fit_with_starts(undisturbed.empty() ? saves : undisturbed);
  SaveCosts& save = result.save.emplace(costs_of(solution, saves.front()));
  save.copy_bytes_per_second = copy_rate(saves);
  if (by_layer && follow_from_states(*first, saves.front(), by_layer, entries)) {
    save.bytes.clear();
    save.writers = 1;
  }
  if (solution[of_sync] == 0 && save.bytes_per_second) {
    result.notes.push_back(
        "save: syncing can't be told from writing; all of the time is attributed to the "
        "storage's rate");
  }
  return result;
}

}  // namespace pipesim
