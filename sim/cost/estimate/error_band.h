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

// For runs of the same device, software and precision, on as many devices as such runs had, at
// least and at most. Models with experts have bands of their own, of runs with as many experts, and
// so have others with context parallelism, of as many ranks. Nothing if none are known, and for
// models that are not transformers. A cluster's own band is of the runs that it was fitted to,
// which had neither.
std::optional<ErrorBand> error_band(const Model& model, const Cluster& cluster,
                                    const Training& training);
std::optional<ErrorBand> error_band(const CostModel& model);

// The same for the peak memory of the fullest rank: of runs of the same device and software, or of
// the same device if few of that software are known. Nothing for models with experts.
std::optional<ErrorBand> memory_error_band(const Model& model, const Cluster& cluster);
std::optional<ErrorBand> memory_error_band(const CostModel& model);

// What is known of a predicted peak: its whole band is under the cap, a part of it, or nothing.
enum class Fit : std::uint8_t { fits, may_not_fit, does_not_fit };

// Without a band the prediction decides. A cap below the device's memory is a margin of its own:
// what is predicted to be above it does not fit, and the band is held against the device.
Fit fit_of(std::int64_t peak_bytes, std::int64_t cap_bytes, std::int64_t device_bytes,
           const std::optional<ErrorBand>& band);
// The largest peak that fits.
std::int64_t certain_bytes(std::int64_t cap_bytes, std::int64_t device_bytes,
                           const std::optional<ErrorBand>& band);

// "four of five measured peaks are within that band, of 206 rows (nanotron h100)"
std::string memory_band_text(const ErrorBand& band);

// " +-15 %" to follow a time or a peak; empty if there is none.
std::string band_text(const std::optional<ErrorBand>& band);

// "a100-sxm-80gb with megatron-2022, validated on 19 rows, 17 held": by a band made without their
// model", or that there is no measurement.
std::string validation_text(const Cluster& cluster, const std::optional<ErrorBand>& band);

}  // namespace pipesim
