#include "gui/playground/playground.h"

namespace pipesim::gui {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

}  // namespace

std::vector<Lesson> lessons() {
  Settings gpipe;
  gpipe.schedule = "gpipe";
  gpipe.activation_bytes = gib / 2;
  gpipe.memory_cap_bytes = 3 * gib;
  Settings one_f_one_b = gpipe;
  one_f_one_b.schedule = "1f1b";

  Settings slow;
  slow.slow_stage = 2;
  slow.slow_percent = 150;

  Settings interleaved;
  interleaved.schedule = "interleaved";
  interleaved.virtual_stages = 2;

  Settings split;
  split.schedule = "zb-h1";
  Settings no_bubble;
  no_bubble.schedule = "zb-h2";

  return {
      {"GPipe vs 1F1B: GPipe",
       "All forwards come first, so each rank keeps all microbatches: more than fit in memory.",
       gpipe},
      {"GPipe vs 1F1B: 1F1B",
       "As long as GPipe, but a backward frees what a forward kept: it fits.", one_f_one_b},
      {"A slow stage",
       "Stage 2 takes half as much again. Every other rank waits for it, once per microbatch.",
       slow},
      {"Interleaving",
       "1F1B with two chunks per rank, each half as long: half the bubble, for more memory.",
       interleaved},
      {"Zero bubble: ZB-H1",
       "Split backwards: the weight gradients, for which no rank waits, fill the drain.", split},
      {"Zero bubble: ZB-H2",
       "Twice the warm-up of ZB-H1: no rank waits between its first start and its last end.",
       no_bubble},
  };
}

}  // namespace pipesim::gui
