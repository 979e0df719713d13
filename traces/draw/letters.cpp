#include "traces/draw/letters.h"

#include <algorithm>
#include <cmath>

#include "traces/base/error.h"
#include "traces/base/utf8.h"

#define STBTT_STATIC
#define STB_TRUETYPE_IMPLEMENTATION
#include <stb/stb_truetype.h>

// PIPESIM_FONTS is the folder of the files; the assembler includes their bytes.
#define PIPESIM_EMBED(name, file)         \
  __asm__(                                \
      ".pushsection .rodata\n"            \
      ".balign 16\n" #name                \
      ":\n"                               \
      ".incbin \"" PIPESIM_FONTS "/" file \
      "\"\n"                              \
      ".popsection\n");                   \
  extern "C" __attribute__((visibility("hidden"))) const unsigned char name[];

PIPESIM_EMBED(pipesim_regular_font, "regular.ttf")
PIPESIM_EMBED(pipesim_bold_font, "bold.ttf")

namespace pipesim {
namespace {

template <typename Use>
void for_each_letter(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    constexpr int unknown = 0xfffd;
    int letter = size == 0 ? unknown : size == 1 ? byte(0) : byte(0) & (0x7f >> size);
    for (std::size_t i = 1; i < size; ++i) letter = letter << 6 | (byte(i) & 0x3f);
    use(letter);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
}

}  // namespace

struct Letters::Font {
  stbtt_fontinfo info{};
  float scale = 0;
};

Letters::Letters(int pixels, bool bold) : font_(std::make_unique<Font>()) {
  const unsigned char* file = bold ? pipesim_bold_font : pipesim_regular_font;
  if (stbtt_InitFont(&font_->info, file, 0) == 0) throw work_error("a built-in font is broken");
  font_->scale = stbtt_ScaleForMappingEmToPixels(&font_->info, static_cast<float>(pixels));
}

Letters::~Letters() = default;

double Letters::advance(int letter) const {
  int width = 0;
  int bearing = 0;
  stbtt_GetCodepointHMetrics(&font_->info, letter, &width, &bearing);
  return width * static_cast<double>(font_->scale);
}

double Letters::width(std::string_view text) const {
  double sum = 0;
  for_each_letter(text, [&](int letter) { sum += advance(letter); });
  return sum;
}

void Letters::draw(std::string_view text, double x, int baseline, const AddPixel& add) const {
  for_each_letter(text, [&](int letter) {
    const double whole = std::floor(x);
    int width = 0;
    int height = 0;
    int left = 0;
    int top = 0;
    unsigned char* pixels = stbtt_GetCodepointBitmapSubpixel(
        &font_->info, font_->scale, font_->scale, static_cast<float>(x - whole), 0, letter, &width,
        &height, &left, &top);
    for (int i = 0; i < width * height; ++i) {
      add(static_cast<int>(whole) + left + i % width, baseline + top + i / width, pixels[i]);
    }
    stbtt_FreeBitmap(pixels, nullptr);
    x += advance(letter);
  });
}

}  // namespace pipesim
