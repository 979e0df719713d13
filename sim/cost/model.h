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

// What normalizes a block's inputs, outputs, queries and keys.
enum class NormKind : std::uint8_t {
  layer,           // LayerNorm: a scale and a bias
  layer_unbiased,  // its scale alone
  rms,             // RMSNorm: a scale
  unscaled,        // no parameters
};
enum class QkNorm : std::uint8_t {
  none,
  heads,     // each head of queries, and of keys, by one scale of a head's size
  layer,     // the same with a bias
  whole,     // a scale for each number of all queries, and of all keys
  unscaled,  // no parameters
};
enum class Positions : std::uint8_t {
  table,   // learned, added to the embedding
  rotary,  // of queries and keys
  none,    // no parameters: ALiBi's biases, or none at all
};

// What a layer adds a bias to.
struct Biases {
  bool qkv = false;
  bool attention_output = false;
  bool mlp = false;     // both of its products, and those of experts
  bool router = false;  // of experts
  bool head = false;

  bool operator==(const Biases&) const = default;
};

// Attention whose keys and values are made from one narrow vector per token, the latent, and one
// rotary key that all heads share (DeepSeek-AI, arXiv 2405.04434). A head's queries and keys have
// plain_size + rotary_size numbers, its values value_size.
struct LatentAttention {
  std::int64_t query_rank = 0;  // width of the latent of queries; 0: they are made directly
  std::int64_t kv_rank = 0;     // of keys and values
  std::int64_t plain_size = 0;
  std::int64_t rotary_size = 0;
  std::int64_t value_size = 0;

  bool operator==(const LatentAttention&) const = default;
};

// In what the blocks of a model may differ.
struct BlockKind {
  bool has_experts = false;  // instead of one MLP
  // A token sees so many, itself included; or those of its chunk of so many.
  std::optional<std::int64_t> window{};
  std::optional<std::int64_t> chunk{};

  // Pairs of a token and one that it sees in a sequence.
  double pairs(std::int64_t length) const;
  bool operator==(const BlockKind&) const = default;
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
  std::optional<LatentAttention> latent{};  // kv_heads and own_head_size mean nothing then
  std::int64_t mlp_size = 512;              // for gpt and llama: the width inside a block's MLP
  std::int64_t experts = 1;  // of blocks that have them; a router sends tokens to some of them
  std::int64_t experts_per_token = 1;
  std::int64_t expert_size = 0;  // the width inside an expert
  std::int64_t shared_size = 0;  // the width of experts that every token goes through, in all
  // A token's experts are in so many of equal groups of neighbours; 0: in any.
  std::int64_t expert_groups = 1;
  std::int64_t groups_per_token = 0;
  bool has_shared_gate = false;  // a number per token scales what those give
  std::int64_t vocabulary_size = 256;
  std::int64_t max_sequence_length = 256;
  std::int64_t extra_positions = 0;   // rows of the table that no token has
  std::int64_t rotary_base = 10'000;  // base of the rotary positions' frequencies
  bool tied_head = true;              // the head's matrix is the embedding's table
  std::int64_t dropout_ppm = 0;  // millionths of elements, in the embedding and the blocks' outputs
  std::int64_t prediction_depths = 0;  // layers that predict further tokens, after the blocks

  // What the architecture says unless they say otherwise: see shape_as().
  bool is_gated = false;  // the MLP multiplies two products
  Positions positions = Positions::table;
  NormKind norm_kind = NormKind::layer;
  Biases biases{true, true, true, false, false};
  // Norms of a block: 2; 4 before and after both its parts; 1 if both parts read the same.
  std::int64_t norms = 2;
  bool is_parallel = false;  // attention and MLP read the same input, and are added together
  bool has_embedding_norm = false;
  bool has_inner_norms = false;     // of what attention's output, and the MLP's last product, read
  QkNorm qk_norm = QkNorm::none;    // of queries and keys
  bool has_sinks = false;           // a number per head that takes part in each softmax
  bool has_attention_gate = false;  // made of the input, it scales what the heads make

  // The kinds of the blocks, in order, over and over until each has one.
  std::vector<BlockKind> kinds{BlockKind{}};
  std::vector<ListedLayer> list{};  // for layers, in order, with repetitions

  // Sets what the architecture says.
  void shape_as(Architecture given);

  bool is_listed() const { return architecture == Architecture::layers; }
  bool is_decoder() const {
    return architecture == Architecture::gpt || architecture == Architecture::llama;
  }
  int layers() const {
    return static_cast<int>(is_listed() ? std::ssize(list) : blocks + 2 + prediction_depths);
  }
  bool is_embedding(int layer) const { return !is_listed() && layer == 0; }
  bool is_head(int layer) const { return !is_listed() && layer == layers() - 1; }
  bool is_block(int layer) const { return !is_listed() && layer > 0 && layer <= blocks; }
  bool is_prediction(int layer) const { return !is_listed() && layer > blocks && !is_head(layer); }
  // Of a block; of a prediction that of the last block.
  const BlockKind& kind_of(int layer) const {
    const std::int64_t block = std::min<std::int64_t>(layer, blocks) - 1;
    return kinds[static_cast<std::size_t>(block % std::ssize(kinds))];
  }
  bool has_experts() const { return experts > 1; }  // in some block
  std::int64_t blocks_with_experts() const;
  bool has_positions() const { return positions == Positions::table; }
  bool has_biases() const { return biases.mlp; }
  std::int64_t head_size() const {  // of queries and keys
    return latent ? latent->plain_size + latent->rotary_size
                  : own_head_size.value_or(hidden_size / heads);
  }
  std::int64_t value_size() const { return latent ? latent->value_size : head_size(); }
  std::int64_t attention_size() const { return heads * head_size(); }  // of all heads' queries
  std::int64_t output_size() const { return heads * value_size(); }    // of what they make
  std::int64_t kv_size() const { return kv_heads * head_size(); }
  std::int64_t norm_parameters(std::int64_t width) const;
  // Of norms of so many queries' numbers and keys'.
  std::int64_t qk_norm_parameters(std::int64_t queries, std::int64_t keys) const;
  // Of a block's dense MLP if there are such blocks, else of an expert.
  std::int64_t widest_mlp() const { return std::max({mlp_size, expert_size, shared_size}); }
  std::string layer_name(int layer) const;  // "embedding", "block 3", "prediction 0", "head"
  std::int64_t layer_parameters(int layer) const;
  std::int64_t parameters() const;  // a tied matrix counts once; without predictions
  // Those of all layers that predict further tokens.
  std::int64_t prediction_parameters() const;
  // Those active for one token: all but the experts it is not routed to.
  std::int64_t active_parameters() const;

  bool operator==(const Model&) const = default;
};

// The models known by name. The first call reads those that are files.
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
