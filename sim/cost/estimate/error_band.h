// How far predictions from a model have been off, of runs like this one that nothing was fitted on.
//
// Sets of published iterations stand with their errors in sim/cost/hardware/validated.json, which
// bench/validation/bands.py writes. A cluster's file may bring its own, as one does that was fitted
// to runs of its own. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/hardware/cluster.h"

namespace pipesim {

// Of runs of the same device and software: of the same kind of layout where some are known, which
// is how it spans nodes, whether it has a pipeline, and whether weights are sharded; else the
// widest of all kinds. Nothing where none are known, and of models that are no transformers.
std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training);
std::optional<ErrorBand> error_band(const CostModel& model);

// " +-15 %" behind a time; empty where there is none.
std::string band_text(const std::optional<ErrorBand>& band);

// "a100-sxm-80gb with megatron-2022, validated on 19 rows", or that they are not.
std::string validation_text(const Cluster& cluster, const std::optional<ErrorBand>& band);

}  // namespace pipesim
