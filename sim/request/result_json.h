// The objects that --json prints; their keys are a contract (see FORMAT.md).
#pragma once

#include <optional>
#include <string>

#include "sim/advice/spread.h"
#include "sim/cost/estimate/explanation.h"
#include "sim/engine/prediction.h"
#include "sim/engine/save_effect.h"
#include "sim/request/notes.h"
#include "traces/base/json.h"

namespace pipesim {

// How far predictions have been off, or null.
::pipesim::Json error_band_json(const std::optional<ErrorBand>& band);
::pipesim::Json memory_error_band_json(const std::optional<ErrorBand>& band);

// The `pipesim-result` object, indented, with a line end. A cap adds `fits`; a model, if it gives
// the costs, adds what is trained and how fast; a spread, if times vary, the variation of the
// makespan; saves, what they add; notes are included unchanged.
std::string result_json(const Schedule& schedule, const Prediction& prediction,
                        std::optional<std::int64_t> memory_cap,
                        const std::optional<CostModel>& model,
                        const std::optional<Explanation>& explanation,
                        const std::optional<MakespanSpread>& spread = {},
                        const std::optional<SaveEffect>& saves = {},
                        const std::vector<Note>& notes = {});

}  // namespace pipesim
