// Any bytes as a model file, ours or Hugging Face's: an Error, or a model that is written and read
// again unchanged, whose layers add up and whose heads divide what they should.
#include <cstdlib>
#include <string_view>

#include "sim/cost/model.h"
#include "traces/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Model model = parse_model(text, "fuzz.json");
    const std::string written = to_json(model);
    if (to_json(parse_model(written, "again")) != written) std::abort();
    if (model.active_parameters() < 0) std::abort();
    if (model.parameters() < model.active_parameters()) std::abort();
    if (model.is_listed()) {
      if (model.layer_name(model.layers() - 1) != model.list.back().name) std::abort();
    } else {
      if (model.active_parameters() < 1) std::abort();
      if (model.layer_name(model.layers() - 1) != "head") std::abort();
      if (!model.own_head_size && model.attention_size() != model.hidden_size) std::abort();
      if (model.heads % model.kv_heads != 0) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
