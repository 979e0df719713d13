// The kinds of layers; make_layer() chooses.
#pragma once

#include <memory>

#include "exec/model/layer.h"

namespace pipesim::exec {

std::unique_ptr<Layer> make_embedding(const LayerSetup& setup, int index);
std::unique_ptr<Layer> make_decoder_block(const LayerSetup& setup, int index);
std::unique_ptr<Layer> make_linear_block(const LayerSetup& setup, int index);
std::unique_ptr<Layer> make_head(const LayerSetup& setup, int index);

}  // namespace pipesim::exec
