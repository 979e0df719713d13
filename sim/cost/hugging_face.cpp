// Reads a config.json by what its type is made of (config_type.h).
#include "sim/cost/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "sim/cost/config_type.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t largest_of_config = 1 << 20;  // as in pipesim's own files
constexpr std::int64_t largest_mlp_of_config = 1 << 22;
constexpr std::int64_t max_experts_of_config = 1 << 16;
constexpr std::int64_t longest_of_config = 1'000'000'000;

class ConfigReader {
 public:
  ConfigReader(JsonCursor root, ConfigType type, std::vector<std::string>* notes)
      : root_(std::move(root)), type_(std::move(type)), notes_(notes) {
    for (const auto& [key, member] : *root_.value().get_if<JsonValue::Object>()) {
      if (!member.is_null()) unread_.insert(key);
    }
  }

  Model read() {
    if (const auto differences = type_.setting("model")) apply_differences(*differences, model_);
    sizes();
    heads();
    biases();
    switches();
    if (type_.setting("experts")) {
      experts();
    } else {
      model_.mlp_size = mlp_size();
    }
    windows();
    activation();
    dropout();
    for (const std::string& key : ConfigType::keys_without_effect()) take(key);
    finish();
    return std::move(model_);
  }

 private:
  // A value given, or what the type has without one. None if it is null or there is none.
  struct Found {
    std::string key;
    JsonCursor value;
    bool is_given = false;
  };

  // ---- Values

  void take(std::string_view key) {
    const auto at = unread_.find(key.substr(0, key.find('.')));
    if (at != unread_.end()) unread_.erase(at);
  }

  std::optional<Found> find(std::string_view key) {
    take(key);
    const std::string path =
        root_.path().empty() ? std::string(key) : fmt::format("{}.{}", root_.path(), key);
    if (const JsonValue* given = member_at(root_.value(), key)) {
      if (given->is_null()) return std::nullopt;
      return Found{std::string(key), {*given, root_.file(), path}, true};
    }
    const auto usual = type_.nearest("defaults", key);
    if (!usual) return std::nullopt;
    return Found{std::string(key), *usual, false};
  }

  [[noreturn]] void fail(const Found& found, std::string_view rule) const {
    if (found.is_given) found.value.fail(rule);
    root_.fail(fmt::format("{}: {}", found.key, rule));
  }

  // The config's name of what pipesim calls `role`: the first given, else the first with a default.
  std::optional<std::string> key_of(std::string_view role) const {
    const auto names = type_.nearest("keys", role);
    return names ? std::optional(first_given(*names)) : std::nullopt;
  }
  std::string first_given(const JsonCursor& names) const {
    const std::vector<std::string> all = strings_of(names);
    for (const std::string& name : all) {
      if (is_given(root_.value(), name)) return name;
    }
    for (const std::string& name : all) {
      if (type_.nearest("defaults", name)) return name;
    }
    return all.front();
  }
  std::optional<Found> find_role(std::string_view role) {
    const auto names = type_.nearest("keys", role);
    if (!names) return std::nullopt;
    for (const std::string& name : strings_of(*names)) take(name);
    return find(first_given(*names));
  }

  std::int64_t required(std::string_view role, std::int64_t most = largest_of_config) {
    const auto found = find_role(role);
    if (!found) root_.fail(fmt::format("key '{}' is missing", key_of(role).value_or("")));
    return found->value.integer(1, most);
  }
  std::optional<std::int64_t> integer(const std::optional<Found>& found, std::int64_t least,
                                      std::int64_t most) const {
    return found ? std::optional(found->value.integer(least, most)) : std::nullopt;
  }
  bool is_true(std::string_view key) {
    const auto found = find(key);
    return found && found->value.boolean();
  }

  void note(const std::string& text) {
    if (notes_ != nullptr) notes_->push_back(fmt::format("{}: {}", printable(root_.file()), text));
  }

  // ---- Parts

  void sizes() {
    model_.blocks = required("blocks");
    model_.hidden_size = required("hidden_size");
    model_.vocabulary_size = required("vocabulary_size");
    const auto narrow = find_role("narrow");
    if (narrow && narrow->value.integer(1, largest_of_config) != model_.hidden_size) {
      fail(*narrow, "an embedding of another width than the blocks' is not modelled");
    }
    const std::int64_t length = required("length", longest_of_config);
    model_.max_sequence_length = std::min(length, largest_of_config);
    if (length > largest_of_config) {
      note(fmt::format("{}: {} is taken for {}, the longest", *key_of("length"), length,
                       largest_of_config));
    }
    if (const auto extra = type_.setting("extra_positions")) {
      model_.extra_positions = extra->integer(0, largest_of_config);
    }
    model_.tied_head = is_true("tie_word_embeddings");
    if (model_.architecture == Architecture::gpt && is_true("alibi")) {
      model_.positions = Positions::none;
    } else if (type_.name() == "falcon") {
      model_.positions = Positions::rotary;
    }
    if (const auto base = find_role("rotary_base")) {
      model_.rotary_base = base->value.rounded(1, 1'000'000'000);
    }
    if (type_.setting("predicts") && type_.setting("predicts")->boolean()) {
      model_.prediction_depths = integer(find_role("predictions"), 0, 16).value_or(0);
    }
  }

  void heads() {
    model_.heads = required("heads");
    const std::string key = *key_of("heads");
    if (type_.setting("latent")) {
      latent();
      return;
    }
    model_.kv_heads = model_.heads;
    const auto kv = find_role("kv_heads");
    if (has_one_kv_head()) {
      model_.kv_heads = 1;
    } else if (kv) {
      model_.kv_heads = kv->value.integer(1, largest_of_config);
      if (model_.heads % model_.kv_heads != 0) {
        fail(*kv, fmt::format("{} do not divide {}", model_.kv_heads,
                              plural(model_.heads, "attention head")));
      }
    }
    model_.own_head_size = integer(find_role("head_size"), 1, largest_of_config);
    const bool divides = model_.hidden_size % model_.heads == 0;
    if (divides && model_.own_head_size == model_.hidden_size / model_.heads) {
      model_.own_head_size.reset();
    }
    if (!model_.own_head_size && !divides) {
      root_.fail(fmt::format("{}: {} do not divide a width of {}", key,
                             plural(model_.heads, "head"), model_.hidden_size));
    }
    check_heads(key, model_.head_size());
  }

  bool has_one_kv_head() {
    if (type_.name() == "falcon") {
      return is_true("multi_query") && !is_true("new_decoder_architecture");
    }
    const auto key = type_.setting("one_kv_head_if");
    return key && is_true(key->string());
  }

  void check_heads(const std::string& key, std::int64_t turned) const {
    if (std::max(model_.attention_size(), model_.output_size()) > 4 * largest_of_config) {
      root_.fail(fmt::format("{}: {} of {} numbers are more than {}", key,
                             plural(model_.heads, "head"), model_.head_size(),
                             4 * largest_of_config));
    }
    if (model_.positions == Positions::rotary && turned % 2 != 0) {
      root_.fail(
          fmt::format("{}: heads of {} numbers, but rotary positions turn pairs", key, turned));
    }
  }

  void latent() {
    for (const std::string_view key : {"num_key_value_heads", "head_dim", "qk_head_dim"}) take(key);
    const auto size = [&](std::string_view key) {
      const auto found = find(key);
      if (!found) root_.fail(fmt::format("key '{}' is missing", key));
      return found->value.integer(1, largest_of_config);
    };
    model_.kv_heads = model_.heads;
    LatentAttention& latent = model_.latent.emplace();
    latent.query_rank = integer(find("q_lora_rank"), 1, largest_of_config).value_or(0);
    latent.kv_rank = size("kv_lora_rank");
    latent.plain_size = size("qk_nope_head_dim");
    latent.rotary_size = size("qk_rope_head_dim");
    latent.value_size = size("v_head_dim");
    check_heads("qk_rope_head_dim", latent.rotary_size);
  }

  void biases() {
    const auto keys = type_.setting("biases");
    if (!keys) return;
    for (const auto& [key, parts] : *keys->value().get_if<JsonValue::Object>()) {
      if (!is_true(key)) continue;
      for (const std::string& part : strings_of({parts, keys->file(), key})) {
        if (part == "qkv") model_.biases.qkv = true;
        if (part == "attention_output") model_.biases.attention_output = true;
        if (part == "mlp") model_.biases.mlp = true;
        if (part == "head") model_.biases.head = true;
      }
    }
  }

  // What depends on a switch, is worth a note, or is refused.
  void switches() {
    for (const bool wanted : {true, false}) {
      for (const auto& [key, what] : type_.members(wanted ? "if_true" : "if_false")) {
        if (is_true(key) == wanted) apply_differences(what, model_);
      }
      for (const auto& [key, why] :
           type_.members(wanted ? "refused_if_true" : "refused_if_false")) {
        const auto found = find(key);
        if (found && found->value.boolean() == wanted) fail(*found, why.string());
      }
    }
    for (const auto& [key, what] : type_.members("noted")) {
      const auto found = find(key);
      const bool* is_on = found ? found->value.value().get_if<bool>() : nullptr;
      if (found && (is_on == nullptr || *is_on)) note(fmt::format("{}: {}", key, what.string()));
    }
    if (type_.name() != "falcon") return;
    const bool is_new = is_true("new_decoder_architecture");
    const auto count = integer(find("num_ln_in_parallel_attn"), 1, 2);
    model_.is_parallel = is_true("parallel_attn") || is_new;
    if (model_.is_parallel) model_.norms = is_new ? count.value_or(2) : 1;
  }

  std::int64_t mlp_size() {
    const auto found = find_role("mlp_size");
    if (found) return found->value.integer(1, largest_mlp_of_config);
    if (!type_.setting("usually_four_times")) return required("mlp_size");
    const auto factor = find("expansion_ratio");
    return integer(factor, 1, 64).value_or(4) * model_.hidden_size;
  }

  // ---- Experts

  void experts() {
    const JsonCursor setting = *type_.setting("experts");
    const auto count = find_role("experts");
    if (!count) root_.fail(fmt::format("key '{}' is missing", *key_of("experts")));
    model_.experts = count->value.integer(2, max_experts_of_config);
    model_.experts_per_token = required("experts_per_token", max_experts_of_config);
    if (model_.experts_per_token > model_.experts) {
      root_.fail(fmt::format("{}: {} of {}", *key_of("experts_per_token"), model_.experts_per_token,
                             plural(model_.experts, "expert")));
    }
    model_.expert_size = required("expert_size", largest_mlp_of_config);
    const auto part = [&](std::string_view name) -> std::optional<std::int64_t> {
      const JsonValue* key = member_at(setting.value(), name);
      if (key == nullptr) return std::nullopt;
      const std::string given = first_given({*key, setting.file(), std::string(name)});
      return integer(find(given), -1, largest_mlp_of_config);
    };
    model_.shared_size = std::max<std::int64_t>(
        part("shared_size").value_or(part("shared").value_or(0) * model_.expert_size), 0);
    model_.has_shared_gate =
        model_.shared_size > 0 && member_at(setting.value(), "shared_gate") != nullptr;
    groups(setting);
    blocks_with_experts(setting, part);
  }

  void groups(const JsonCursor& setting) {
    if (member_at(setting.value(), "groups") == nullptr) return;
    const JsonValue* method_key = member_at(setting.value(), "greedy");
    const auto method = method_key == nullptr ? std::nullopt : find("topk_method");
    const auto groups = find("n_group");
    const auto chosen = find("topk_group");
    if (!groups || !chosen || (method && method->value.string() == "greedy")) return;
    const std::int64_t count = groups->value.integer(1, model_.experts);
    if (count == 1) return;
    if (model_.experts % count != 0) {
      fail(*groups,
           fmt::format("{} groups do not divide {}", count, plural(model_.experts, "expert")));
    }
    model_.expert_groups = count;
    model_.groups_per_token = chosen->value.integer(1, count);
  }

  void blocks_with_experts(
      const JsonCursor& setting,
      const std::function<std::optional<std::int64_t>(std::string_view)>& part) {
    const auto blocks = static_cast<std::size_t>(model_.blocks);
    std::vector<BlockKind> kinds(blocks, BlockKind{.has_experts = true});
    const auto keep_if = [&](auto has) {
      for (std::size_t i = 0; i < blocks; ++i) {
        kinds[i].has_experts = kinds[i].has_experts && has(static_cast<std::int64_t>(i));
      }
    };
    const auto in_list = [&](std::string_view name) -> std::optional<std::set<std::int64_t>> {
      const JsonValue* key = member_at(setting.value(), name);
      const auto found = key == nullptr ? std::nullopt : find(*key->get_if<std::string>());
      if (!found) return std::nullopt;
      std::set<std::int64_t> all;
      for (const JsonCursor& one : found->value.array()) {
        all.insert(one.integer(0, largest_of_config));
      }
      return all;
    };
    if (const auto frequency = find("moe_layer_freq")) {
      if (frequency->value.is_array() || frequency->value.integer(1, largest_of_config) > 1) {
        fail(*frequency, "only 1 is read; give mlp_layer_types");
      }
    }
    const auto dense = part("dense_first");
    const auto every = part("every");
    const auto first = part("first");
    const auto last = part("last");
    const auto listed = in_list("listed");
    const auto except = in_list("except");
    const auto types = find("mlp_layer_types");
    if (types) {
      const std::vector<std::string> names = layer_names(*types, {"dense", "sparse"});
      keep_if([&](std::int64_t i) { return names[static_cast<std::size_t>(i)] == "sparse"; });
    } else if (listed) {
      keep_if([&](std::int64_t i) { return listed->contains(i); });
    } else {
      if (dense) keep_if([&](std::int64_t i) { return i >= *dense; });
      if (every && *every > 1) keep_if([&](std::int64_t i) { return (i + 1) % *every == 0; });
      if (first) keep_if([&](std::int64_t i) { return i >= *first; });
      if (last && *last >= 0) keep_if([&](std::int64_t i) { return i <= *last; });
      if (except) keep_if([&](std::int64_t i) { return !except->contains(i); });
    }
    const bool all = std::ranges::all_of(kinds, &BlockKind::has_experts);
    if (std::ranges::none_of(kinds, &BlockKind::has_experts)) {
      root_.fail("no block has experts; give it as a model without any");
    }
    model_.mlp_size = all ? model_.expert_size : mlp_size();
    model_.kinds = std::move(kinds);
  }

  // One of `known` for each block.
  std::vector<std::string> layer_names(const Found& found,
                                       const std::vector<std::string>& known) const {
    std::vector<std::string> names;
    for (const JsonCursor& one : found.value.array()) {
      names.push_back(one.string());
      if (std::ranges::find(known, names.back()) != known.end()) continue;
      one.fail(
          fmt::format("{}; only these are read: {}", quote(names.back()), fmt::join(known, ", ")));
    }
    if (std::ssize(names) != model_.blocks) {
      fail(found,
           fmt::format("{} of {}; give one for each", plural(std::ssize(names), "entry", "entries"),
                       plural(model_.blocks, "block")));
    }
    return names;
  }

  // ---- Windows

  void windows() {
    const auto setting = type_.setting("windows");
    if (setting) {
      model_.kinds = block_kinds(*setting);
    }
    shorten_kinds();
  }

  std::vector<BlockKind> block_kinds(const JsonCursor& setting) {
    const auto name = [&](std::string_view key) -> std::string {
      const JsonValue* value = member_at(setting.value(), key);
      return value == nullptr ? "" : *value->get_if<std::string>();
    };
    const auto keyed = [&](std::string_view key) -> std::optional<std::int64_t> {
      const JsonValue* value = member_at(setting.value(), key);
      if (value == nullptr) return std::nullopt;
      return integer(find(first_given({*value, setting.file(), std::string(key)})), 0,
                     largest_of_config);
    };
    const bool is_chunked = member_at(setting.value(), "chunks") != nullptr;
    auto size = find("sliding_window");
    const auto chunk = find("attention_chunk_size");
    if (is_chunked) size = chunk;
    const bool is_off = !name("only_if").empty() && !is_true(name("only_if"));
    if (is_off || (size && size->value.value().get_if<std::int64_t>() != nullptr &&
                   *size->value.value().get_if<std::int64_t>() == 0)) {
      size.reset();
    }
    const std::vector<bool> narrow = narrow_blocks(setting, keyed, is_chunked);
    const auto length = integer(size, 1, longest_of_config);
    std::vector<BlockKind> kinds;
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      BlockKind kind = model_.kinds[i % model_.kinds.size()];
      if (narrow[i] && length && *length < model_.max_sequence_length) {
        (is_chunked ? kind.chunk : kind.window) = length;
      }
      kinds.push_back(kind);
    }
    return kinds;
  }

  // Those whose tokens don't see all.
  std::vector<bool> narrow_blocks(
      const JsonCursor& setting,
      const std::function<std::optional<std::int64_t>(std::string_view)>& keyed, bool is_chunked) {
    const auto blocks = static_cast<std::size_t>(model_.blocks);
    const auto has = [&](std::string_view key) {
      return member_at(setting.value(), key) != nullptr;
    };
    const auto number = [&](std::string_view key) -> std::int64_t {
      const JsonValue* value = member_at(setting.value(), key);
      return value == nullptr ? 0 : *value->get_if<std::int64_t>();
    };
    std::vector<bool> narrow(blocks, !has("needs_types"));
    if (const auto types = find("layer_types")) {
      const std::string own = is_chunked ? "chunked_attention" : "sliding_attention";
      const std::vector<std::string> names = layer_names(*types, {"full_attention", own});
      for (std::size_t i = 0; i < blocks; ++i) narrow[i] = names[i] == own;
      return narrow;
    }
    const std::int64_t period = keyed("period_key").value_or(number("period"));
    const std::int64_t before = keyed("period_before").value_or(1);
    const std::int64_t after = keyed("after").value_or(0);
    const auto from = keyed("from");
    const auto until = keyed("until");
    for (std::int64_t i = 0; i < model_.blocks; ++i) {
      const std::int64_t own = i < after ? before : period;
      const std::int64_t at = i < after ? i : i - after;
      const auto block = static_cast<std::size_t>(i);
      if (own > 0 && (has("full_first") ? at % own == 0 : (at + 1) % own == 0)) {
        narrow[block] = false;
      }
      if ((from && i < *from) || (until && i >= *until)) narrow[block] = false;
    }
    if (const auto turned = has("unrotated") ? find("no_rope_layers") : std::nullopt;
        turned && !turned->value.array().empty()) {
      const std::vector<JsonCursor> all = turned->value.array();
      for (std::size_t i = 0; i < std::min(blocks, all.size()); ++i) {
        narrow[i] = all[i].integer(0, 1) == 1;
      }
    }
    // Windows are those of blocks without rotary positions, chunks those of the others.
    if (has("unrotated") && !is_chunked) narrow.flip();
    return narrow;
  }

  // The shortest list that repeats to the same.
  void shorten_kinds() {
    std::vector<BlockKind>& kinds = model_.kinds;
    for (std::size_t period = 1; period < kinds.size(); ++period) {
      std::size_t i = period;
      while (i < kinds.size() && kinds[i] == kinds[i - period]) ++i;
      if (i == kinds.size()) {
        kinds.resize(period);
        return;
      }
    }
  }

  // ---- The rest

  // Another function than the architecture's has the same cost.
  void activation() {
    const auto found = find_role("activation");
    if (!found) return;
    const std::string name = found->value.string();
    const bool is_gelu = name.find("gelu") != std::string::npos;
    if (model_.is_gated ? name == "silu" || name == "swish" : is_gelu) return;
    note(fmt::format("{}: {} is taken for {}, which costs as much", found->key, printable(name),
                     model_.is_gated ? "silu" : "gelu"));
  }

  std::int64_t fraction(std::string_view key) {
    const auto found = find(key);
    if (!found) return 0;
    const std::int64_t ppm = found->value.millionths(1);
    if (ppm == 1'000'000) fail(*found, "must be less than 1");
    return ppm;
  }

  // One fraction represents all.
  void dropout() {
    const auto keys = type_.setting("dropouts");
    if (!keys) {
      if (fraction("attention_dropout") > 0) {
        note("attention_dropout: dropout of scores alone is not modelled, and taken for none");
      }
      return;
    }
    const std::vector<std::string> all = strings_of(*keys);
    model_.dropout_ppm = fraction(all.front());
    for (const std::string& key : all) {
      const std::int64_t value = fraction(key);
      if (value == model_.dropout_ppm) continue;
      note(fmt::format("{}: {:g} is taken for {:g}, {}'s; a model has one dropout", key,
                       static_cast<double>(value) / 1e6,
                       static_cast<double>(model_.dropout_ppm) / 1e6, all.front()));
    }
  }

  void finish() {
    if (unread_.empty()) return;
    std::vector<std::string> names;
    for (const std::string& key : unread_) names.push_back(printable(key));
    note(fmt::format("{} not known here, and assumed to have no effect: {}",
                     names.size() == 1 ? "a key" : "keys", fmt::join(names, ", ")));
  }

  JsonCursor root_;
  ConfigType type_;
  std::vector<std::string>* notes_;
  std::set<std::string, std::less<>> unread_;
  Model model_{.name = {}};
};

}  // namespace

bool is_hugging_face(const JsonValue& document) {
  return member_at(document, "format") == nullptr &&
         (member_at(document, "model_type") != nullptr ||
          member_at(document, "architectures") != nullptr);
}

Model read_hugging_face(const JsonCursor& root, std::vector<std::string>* notes) {
  ConfigType type = ConfigType::of(root, "", notes);
  JsonCursor text = root;
  const auto inner = type.setting("text");
  if (inner) {
    const bool is_nested = is_given(root.value(), "text_config");
    if (is_nested) text = {*member_at(root.value(), "text_config"), root.file(), "text_config"};
    if (text.value().get_if<JsonValue::Object>() == nullptr) text.fail("must be an object");
    if (notes != nullptr) {
      notes->push_back(fmt::format(
          "{}: {} takes more than text; {} is read, without the other "
          "parts",
          printable(root.file()), type.name(), is_nested ? "text_config alone" : "its text part"));
    }
    type = is_nested ? ConfigType::of(text, inner->string(), notes)
                     : *ConfigType::find(inner->string());
  }
  Model model = ConfigReader(text, type, notes).read();
  // Outside of text_config it holds for all.
  const JsonValue* tied = member_at(root.value(), "tie_word_embeddings");
  if (inner && !is_given(text.value(), "tie_word_embeddings") && tied != nullptr) {
    model.tied_head = JsonCursor(*tied, root.file(), "tie_word_embeddings").boolean();
  }
  const JsonValue* path = member_at(root.value(), "_name_or_path");
  const std::string* name = path == nullptr ? nullptr : path->get_if<std::string>();
  model.name = name == nullptr || name->empty() ? root.file() : *name;
  return model;
}

}  // namespace pipesim
