#include "sim/cost/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::string_view layer_letters = "EtmL";

// Writes Megatron's layout out in letters and bars.
class MegatronLayout {
 public:
  explicit MegatronLayout(std::string_view text) : whole_(text), rest_(text) {}

  std::string expand() {
    std::string out = sequence();
    if (!rest_.empty()) fail("an unexpected ')'");
    return out;
  }

 private:
  static constexpr std::size_t longest = 100'000;  // letters and bars

  [[noreturn]] void fail(std::string_view rule) const {
    throw input_error(
        fmt::format("--layout: {} at column {} of {}; letters are E, t, m, L, such as {}", rule,
                    whole_.size() - rest_.size() + 1, quote(whole_), "Et*3|(tt|)*29,m|L"));
  }

  std::string sequence(int depth = 0) {
    if (depth > 16) fail("brackets nested too deep");
    std::string out;
    while (!rest_.empty() && rest_.front() != ')') {
      std::string part;
      const char c = rest_.front();
      if (c == '(') {
        rest_.remove_prefix(1);
        part = sequence(depth + 1);
        if (rest_.empty()) fail("a '(' that is never closed");
        rest_.remove_prefix(1);
      } else if (c == '|' || layer_letters.find(c) != std::string_view::npos) {
        part = c;
        rest_.remove_prefix(1);
      } else if (c == ',' || c == ' ') {
        rest_.remove_prefix(1);
        continue;
      } else {
        fail(fmt::format("an unexpected {}", quote(rest_.substr(0, 1))));
      }
      const int times = repetition();
      if (out.size() + part.size() * static_cast<std::size_t>(times) > longest) {
        fail("too many layers");
      }
      for (int i = 0; i < times; ++i) out += part;
    }
    return out;
  }

  int repetition() {
    if (!rest_.starts_with('*')) return 1;
    rest_.remove_prefix(1);
    int times = 0;
    const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), times);
    if (status != std::errc() || times < 1 || times > static_cast<int>(longest)) {
      fail(fmt::format("a '*' without a count from 1 to {}", format_count(longest)));
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return times;
  }

  std::string_view whole_;
  std::string_view rest_;
};

bool only(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

[[noreturn]] void refuse_empty(std::size_t stage, std::string_view text) {
  throw input_error(fmt::format("--layout: stage {} of {} has no layer; every stage needs one",
                                stage, quote(text)));
}

Layout parse_text(std::string_view text) {
  Layout layout;
  if (only(text, "0123456789,- ")) {
    for (const std::string_view part : split(text, ',')) {
      if (strip(part) == "0") refuse_empty(layout.layers.size(), text);
      layout.layers.push_back(parse_count(part, "--layout"));
    }
    return layout;
  }
  const std::string expanded = MegatronLayout(text).expand();
  for (const std::string_view stage : split(expanded, '|')) {
    if (stage.empty()) refuse_empty(layout.layers.size(), text);
    layout.layers.push_back(static_cast<int>(stage.size()));
    layout.letters += stage;
  }
  return layout;
}

}  // namespace

Layout parse_layout(std::string_view text) {
  text = strip(text);
  const bool is_list = !text.empty() && only(text, "0123456789,- ");
  const bool is_megatron = text.find('|') != std::string_view::npos ||
                           (!text.empty() && only(text, "EtmL*()0123456789, "));
  if (is_list || is_megatron) return parse_text(text);
  const std::string content = read_file(std::string(text));
  return parse_text(strip(content));
}

namespace {

// "ttt" as "t*3"; shorter ones unchanged.
std::string decoders(int count) {
  return count < 3 ? std::string(static_cast<std::size_t>(count), 't') : fmt::format("t*{}", count);
}

}  // namespace

std::string to_megatron_layout(const std::vector<int>& layout) {
  const std::int64_t total = std::accumulate(layout.begin(), layout.end(), std::int64_t{0});
  if (std::ranges::any_of(layout, [](int size) { return size < 1; }) || total < 2) {
    throw input_error(fmt::format(
        "--layout: {} on {} are no Megatron layout; give every stage a layer, and embedding and "
        "head theirs",
        plural(total, "layer"), plural(static_cast<std::int64_t>(layout.size()), "virtual stage")));
  }
  if (layout.size() == 1) return fmt::format("E{}L", decoders(layout[0] - 2));
  std::string text = fmt::format("E{}|", decoders(layout.front() - 1));
  const auto last = layout.end() - 1;
  for (auto stage = layout.begin() + 1; stage != last;) {
    const auto next = std::find_if(stage, last, [&](int size) { return size != *stage; });
    const auto alike = next - stage;
    const std::string one = decoders(*stage) + "|";
    if (alike < 3) {
      for (auto i = alike; i > 0; --i) text += one;
    } else {
      text += fmt::format("({})*{},", one, alike);
    }
    stage = next;
  }
  return text + decoders(*last - 1) + "L";
}

void check_letters(const Layout& layout, const Model& model) {
  if (layout.letters.empty() || model.is_listed()) return;
  const std::string& letters = layout.letters;
  const std::size_t last = letters.size() - 1;
  // Before the loss are the predictions of further tokens.
  const std::size_t depths = std::min(static_cast<std::size_t>(model.prediction_depths), last);
  const auto right = [&](std::size_t i) {
    return i == 0 ? 'E' : i == last ? 'L' : i + depths >= last ? 'm' : 't';
  };
  // Letters of no model are checked first: without them the others may be in their places.
  std::size_t at = depths == 0 ? letters.find('m') : std::string::npos;
  for (std::size_t i = 0; at == std::string::npos && i < letters.size(); ++i) {
    if (letters[i] != right(i)) at = i;
  }
  if (at == std::string::npos) return;
  std::size_t stage = 0;
  std::size_t end = 0;
  while ((end += static_cast<std::size_t>(layout.layers[stage])) <= at) ++stage;
  const char expected = right(at);
  const std::string what =
      letters[at] == 'm' && depths == 0
          ? fmt::format("multi-token prediction, which {} does not have", model.name)
          : fmt::format("but is where {} has {}", model.name,
                        expected == 'E'   ? "its embedding, E"
                        : expected == 'L' ? "its head, L"
                        : expected == 'm' ? "multi-token prediction, m"
                                          : "a block, t");
  throw input_error(fmt::format(
      "--layout: layer {} on virtual stage {} is {}, {}; its layers are E, {} t{} and L in this "
      "order",
      at, stage, letters[at], what, model.blocks,
      model.prediction_depths > 0 ? fmt::format(", {} m", model.prediction_depths) : ""));
}

std::vector<int> even_layout(int layers, int stages) {
  std::vector<int> layout(static_cast<std::size_t>(stages), layers / stages);
  for (int i = 0; i < layers % stages; ++i) ++layout[static_cast<std::size_t>(i)];
  return layout;
}

// Blocks as even as possible, the remainder from the second stage on: the ends also have the
std::vector<int> usual_layout(const Model& model, int stages) {
  if (model.is_listed()) return even_layout(model.layers(), stages);
  const int blocks = static_cast<int>(model.blocks);
  std::vector<int> sizes(static_cast<std::size_t>(stages), blocks / stages);
  for (int i = 0; i < blocks % stages; ++i) {
    ++sizes[static_cast<std::size_t>((i + 1) % stages)];
  }
  ++sizes.front();
  sizes.back() += 1 + static_cast<int>(model.prediction_depths);
  return sizes;
}

namespace {

// Of the products with weights that a token goes through.
double product_weights(const Model& model, int layer) {
  if (model.is_embedding(layer)) return 0;
  const auto h = static_cast<double>(model.hidden_size);
  if (model.is_head(layer)) return static_cast<double>(model.vocabulary_size) * h;
  const std::int64_t width = model.kind_of(layer).has_experts
                                 ? model.experts_per_token * model.expert_size + model.shared_size
                                 : model.mlp_size;
  return h * static_cast<double>(2 * (model.attention_size() + model.kv_size()) +
                                 (model.is_gated ? 3 : 2) * width);
}

}  // namespace

std::vector<int> layout_by_cost(const Model& model, int stages) {
  const int layers = model.layers();
  double all = 0;
  for (int layer = 0; layer < layers; ++layer) all += product_weights(model, layer);
  std::vector<int> sizes(static_cast<std::size_t>(stages), 0);
  double so_far = 0;
  int stage = 0;
  for (int layer = 0; layer < layers; ++layer) {
    // The rest get one layer each.
    if (sizes[static_cast<std::size_t>(stage)] > 0 && layers - layer < stages - stage) ++stage;
    ++sizes[static_cast<std::size_t>(stage)];
    so_far += product_weights(model, layer);
    const bool is_full = so_far > all * (stage + 1) / stages;
    if (is_full && stage + 1 < stages && layers - layer > 1) ++stage;
  }
  return sizes;
}

std::vector<int> resolve_layout(const std::optional<std::vector<int>>& given, int layers,
                                int stages, std::string_view name) {
  if (layers < stages) {
    throw input_error(fmt::format("{}: {} cannot fill {}; use fewer stages", name,
                                  plural(layers, "layer"), plural(stages, "virtual stage")));
  }
  std::vector<int> sizes = given.value_or(even_layout(layers, stages));
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (static_cast<int>(sizes.size()) != stages || total != layers) {
    throw input_error(fmt::format(
        "--layout: {} on {}, but {} has {} (embedding and head included) and the schedule {}",
        plural(total, "layer"), plural(static_cast<std::int64_t>(sizes.size()), "virtual stage"),
        name, plural(layers, "layer"), plural(stages, "virtual stage")));
  }
  return sizes;
}

}  // namespace pipesim
