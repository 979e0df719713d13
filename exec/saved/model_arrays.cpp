#include "exec/saved/model_arrays.h"

#include <memory>

#include "exec/device/cpu/cpu_device.h"
#include "exec/model/layer.h"
#include "exec/run/saved_training.h"

namespace pipesim::exec {
namespace {

// A layer knows its parameters before they have numbers.
template <typename Visit>
void for_each_parameter_of(const Model& model, const Visit& visit) {
  const std::unique_ptr<Device> device = make_cpu_device();
  Pool pool(*device);
  const LayerSetup setup{.device = *device, .pool = pool, .model = model};
  for (int index = 0; index < model.layers(); ++index) {
    const std::unique_ptr<Layer> layer = make_layer(setup, index);
    const std::vector<Parameter>& parameters = layer->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) visit(index, i, parameters[i]);
  }
}

}  // namespace

std::vector<ModelArray> states_of(const Model& model) {
  std::vector<ModelArray> arrays;
  for_each_parameter_of(model, [&](int layer, std::size_t index, const Parameter& parameter) {
    const std::string key = states_key(model, layer, index, parameter);
    if (key == own_key(model, layer, parameter)) arrays.push_back({key, parameter.whole_size});
  });
  return arrays;
}

std::vector<ModelArray> gradients_of(const Model& model) {
  std::vector<ModelArray> arrays;
  for_each_parameter_of(model, [&](int layer, std::size_t /*index*/, const Parameter& parameter) {
    arrays.push_back({own_key(model, layer, parameter), parameter.whole_size});
  });
  return arrays;
}

}  // namespace pipesim::exec
