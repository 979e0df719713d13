// A model: the shapes of its layers, by name or from a file.
//
// One description for the executor, which trains it, and for cost models. A
// model is a list of layers: the embedding, the blocks in order, the head;
// `--layout` deals them out to virtual stages. The file's format is in
// traces/FORMAT.md; Hugging Face's config.json works, too (hugging_face.h). Plain
// values; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

enum class Architecture : std::uint8_t {
  gpt,     // pre-norm decoder blocks: causal attention, then a GELU MLP, each added to its input
  llama,   // the same with RMS norms, rotary positions, a gated SiLU MLP and no biases
  mlp,     // blocks of one linear layer and a GELU
  layers,  // as in `list`
};

// A layer given by its own numbers, per sequence or sample.
struct ListedLayer {
  std::string name;
  std::int64_t parameters = 0;
  // Either FLOPs and bytes moved through memory, or times.
  double forward_flops = 0;
  double backward_flops = 0;
  double forward_bytes = 0;
  double backward_bytes = 0;
  std::optional<std::int64_t> forward_ns{};
  std::optional<std::int64_t> backward_ns{};
  std::int64_t saved_bytes = 0;   // kept from forward to backward
  std::int64_t output_bytes = 0;  // passed to the next layer

  bool operator==(const ListedLayer&) const = default;
};

struct Model {
  std::string name;
  Architecture architecture = Architecture::gpt;
  std::int64_t blocks = 8;
  std::int64_t hidden_size = 128;
  std::int64_t heads = 4;     // for gpt and llama
  std::int64_t kv_heads = 4;  // keys and values: as many as heads, or fewer, shared by groups
  // Size of a head, if not hidden_size / heads.
  std::optional<std::int64_t> own_head_size{};
  std::int64_t mlp_size = 512;  // for gpt and llama: the width inside a block's MLP, or an expert's
  std::int64_t experts = 1;     // more than one: a router sends each token to some of them
  std::int64_t experts_per_token = 1;
  std::int64_t vocabulary_size = 256;
  std::int64_t max_sequence_length = 256;
  bool rotary_gpt = false;            // for gpt: rotary positions as in a llama, instead of a table
  std::int64_t rotary_base = 10'000;  // base of the rotary positions' frequencies
  bool qkv_bias = false;              // for llama: queries, keys and values have biases
  bool qk_norm = false;               // for llama: RMS norms of each head's queries and of its keys
  std::optional<std::int64_t> window{};  // attention looks back over this many tokens
  bool tied_head = true;                 // the head's matrix is the embedding's table
  std::int64_t dropout_ppm = 0;  // millionths of elements, in the embedding and the blocks' outputs
  std::vector<ListedLayer> list{};  // for layers, in order, with repetitions

  bool is_listed() const { return architecture == Architecture::layers; }
  int layers() const { return static_cast<int>(is_listed() ? std::ssize(list) : blocks + 2); }
  bool is_embedding(int layer) const { return !is_listed() && layer == 0; }
  bool is_head(int layer) const { return !is_listed() && layer == layers() - 1; }
  bool is_gated() const { return architecture == Architecture::llama; }
  // In a table.
  bool has_positions() const { return architecture != Architecture::llama && !rotary_gpt; }
  // Biases of all GEMMs and norms; qkv_bias is separate.
  bool has_biases() const { return architecture != Architecture::llama; }
  std::int64_t head_size() const { return own_head_size.value_or(hidden_size / heads); }
  std::int64_t attention_size() const { return heads * head_size(); }  // of all heads
  std::int64_t kv_size() const { return kv_heads * head_size(); }
  std::int64_t longest_sequence() const {
    return std::min(max_sequence_length, window.value_or(max_sequence_length));
  }
  std::string layer_name(int layer) const;  // "embedding", "block 3", "head"
  std::int64_t layer_parameters(int layer) const;
  std::int64_t parameters() const;  // a tied matrix counts once
  // Those active for one token: all but the experts it is not routed to.
  std::int64_t active_parameters() const;

  bool operator==(const Model&) const = default;
};

// The models known by name.
const std::vector<Model>& known_models();
std::vector<std::string> model_names();

// `file` names the text in errors, and a model without a name. If layers are
// listed, every size is 0. Appends to `notes`, if given, a sentence for each setting of a foreign
// file that is ignored.
Model parse_model(std::string_view text, const std::string& file,
                  std::vector<std::string>* notes = nullptr);
// A known name, or a file: a name that ends in .json or has a slash.
Model find_model(const std::string& name_or_file, std::vector<std::string>* notes = nullptr);
// The description as a JSON file that parse_model() reads, on one line.
std::string to_json(const Model& model, int indent = -1);

}  // namespace pipesim
