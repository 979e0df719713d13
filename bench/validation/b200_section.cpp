#include "bench/validation/b200_section.h"

#include <fmt/format.h>

#include <vector>

#include "bench/validation/markdown.h"

namespace pipesim::validation {
namespace {

const char* const introduction =
    R"(## SimuMax's release table, B200: dense Llama models, with fused attention

One node of eight B200, Megatron-LM with Transformer Engine, ZeRO 1 over the replicas, fp32
gradients; 70B with 12 blocks, 405B with 4. All rows are unseen: no constant was fitted on an
iteration of a B200. The source is not wholly independent: the B200's shares of matrix products
and of memory's rate, and its node's rates of collectives, are from a table of single products
and collectives by the same authors. Beside ours stand the errors of what SimuMax predicts; it
looks each product up in that table. 19 of the 43 rows are left out: experts with MLA, and
context parallelism, are not modelled. A time is the shorter of the second and third iterations
of a run.

)";

const char* const reasons =
    R"(Predictions are too short. As far as can be told:

- Products are not what differs most. By the table one block's take 1 to 3 % longer than
  predicted, and less for 70B with t 4 and 8, by 2 and 10 %; single ones differ by more, since
  one share of the peak, 0.52, stands for all.
- With the table's times SimuMax is too short, too, so that kernels may take longer in an
  iteration than alone. Of 70B with t 1 each microbatch adds 158 ms between 4 and 8
  microbatches, and 165 ms between 8 and 32.
- Fused attention's share, 0.6, is carried over from the A100. For sequences of 4,096 the table
  has 0.42 to 0.50 of the peak in forwards of 64 and 128 heads, 0.16 of 8 heads, and 0.33 to
  0.42 in backwards, where the half that is skipped does not count: 1 to 3 % of a block.
- The hidden part of tensor-parallel reductions is carried over, too. The source says that
  overlap was off; Transformer Engine starts some collectives beside products nevertheless.
  Errors with nothing hidden stand beside.
- Kernel gaps and the host's times are those of an A100's program. 70B with t 8, the worst, is
  SimuMax's worst, too, and has the shortest kernels; what it waits for is not known here.

)";

const char* const memory_reasons =
    R"(Peaks are what PyTorch allocated on the fullest rank, measured once for each model and split:
the source's longer runs repeat them. What is missing is mostly the software's, as reckoned from
its code after the errors were seen:

- Transformer Engine keeps a placeholder for the gradient of each shape of weight, 2 bytes a
  parameter: of 70B 1.59 / t GiB for a block and 1.96 / t for the head, of 405B 6.00 / t and
  3.91 / t.
- The fused cross entropy leaves the logits' gradient where the logits were: 4 bytes a logit,
  1.96 / t GiB, are predicted too many on the rank of the head.
- With both counted, 0.1 to 0.9 GiB are left on every rank. On first ranks of two they are the
  gradients within an MLP's backward, less what it needs no more: 4 T f bytes, 0.44 and
  0.81 GiB. So states, and what blocks keep, are right to 1 % of the peak.

)";

std::string signed_percent(double fraction) { return fmt::format("{:+.1f}", 100 * fraction); }

void add_summary(Table& table, const char* name, const ErrorSummary& errors) {
  table.add({name, std::to_string(errors.rows), fmt::format("{:+.2f}", 100 * errors.signed_mean),
             fmt::format("{:.2f}", 100 * errors.mean), fmt::format("{:.2f}", 100 * errors.median),
             fmt::format("{:.2f}", 100 * errors.worst), errors.worst_name});
}

}  // namespace

std::string b200_section(const Findings& findings) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  Table times({"row", "measured, ms", "predicted, ms", "error, %", "with nothing hidden, %",
               "SimuMax's error, %", "use"});
  Table peaks({"row", "measured, GiB", "predicted, GiB", "error, %", "SimuMax's error, %"});
  std::vector<NamedError> peer_times;
  std::vector<NamedError> peer_peaks;
  const std::vector<Outcome> outcomes = findings.of(Source::simumax_b200);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    const Row& row = *outcome.row;
    const double peer = row.peer_s.value() / row.published_s - 1;
    peer_times.push_back({row.name, peer});
    times.add(
        {row.name, fmt::format("{:.1f}", row.published_s * 1e3),
         fmt::format("{:.1f}", outcome.predicted.seconds * 1e3), signed_percent(outcome.error()),
         signed_percent(findings.outcomes_unhidden[i].error()), signed_percent(peer), "unseen"});
    if (!row.published_peak_bytes) continue;
    const double peer_peak = row.peer_peak_bytes.value() / *row.published_peak_bytes - 1;
    peer_peaks.push_back({row.name, peer_peak});
    peaks.add({row.name, fmt::format("{:.2f}", *row.published_peak_bytes / gib),
               fmt::format("{:.2f}", static_cast<double>(outcome.predicted.peak_bytes) / gib),
               signed_percent(outcome.peak_error()), signed_percent(peer_peak)});
  }
  Table summary({"errors of", "rows", "signed mean", "mean", "median", "worst", "which"});
  add_summary(summary, "time", summarise(outcomes));
  add_summary(summary, "time, nothing hidden", summarise(findings.outcomes_unhidden));
  add_summary(summary, "time, SimuMax", summarise(peer_times));
  add_summary(summary, "peak memory", summarise_peaks(outcomes));
  add_summary(summary, "peak memory, SimuMax", summarise(peer_peaks));
  return introduction + summary.text() + times.text() + reasons + memory_reasons + peaks.text();
}

}  // namespace pipesim::validation
