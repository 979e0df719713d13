// How far predictions from a model have been off, for runs like this one that nothing was fitted
// on. Sets of published iterations are in sim/cost/hardware/validated.json, with their errors,
// written by bench/validation/bands.py. A cluster's file may have its own, as a fitted one does.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/hardware/cluster.h"

namespace pipesim {

// For runs of the same device, software and precision; else of the same device and software, or, if
// the software lists its kernels and some run is of the device, of others, with a band that is wide
// enough for these. Nothing if none are known, for models with experts, and for models that are not
// transformers.
std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training);
std::optional<ErrorBand> error_band(const CostModel& model);

// The same for the peak memory of the fullest rank: of runs of the same device and software, or of
// the same device if few of that software are known.
std::optional<ErrorBand> memory_error_band(const Model& model, const Cluster& cluster);
std::optional<ErrorBand> memory_error_band(const CostModel& model);

// A predicted peak under this fits into the memory even if the prediction is too low by the whole
// band.
std::int64_t cap_with_margin(std::int64_t memory_bytes, const ErrorBand& band);
// Whether a predicted peak fits under the cap, but may exceed the device's memory. A cap below that
// memory is a margin of its own.
bool may_not_fit(std::int64_t peak_bytes, std::int64_t cap_bytes, std::int64_t device_bytes,
                 const std::optional<ErrorBand>& band);

// "predicted peaks were off by up to 21 % in four of five of 206 rows (nanotron h100)"
std::string memory_band_text(const ErrorBand& band);

// " +-15 %" to follow a time or a peak; empty if there is none.
std::string band_text(const std::optional<ErrorBand>& band);

// "a100-sxm-80gb with megatron-2022, validated on 19 rows", or that it is not validated.
std::string validation_text(const Cluster& cluster, const std::optional<ErrorBand>& band);

}  // namespace pipesim
