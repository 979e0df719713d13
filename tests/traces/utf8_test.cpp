// Characters of UTF-8, counted against Unicode, and the texts for people made of them.
#include "traces/base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "traces/base/text.h"

namespace pipesim {
namespace {

std::string encoded(unsigned character) {
  const auto byte = [](unsigned value) { return static_cast<char>(value); };
  const auto more = [&](int shift) { return byte(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) return {byte(character)};
  if (character < 0x800) return {byte(0xc0 | character >> 6), more(0)};
  if (character < 0x10000) return {byte(0xe0 | character >> 12), more(6), more(0)};
  return {byte(0xf0 | character >> 18), more(12), more(6), more(0)};
}

TEST(Utf8, HasACharacterForEachOfUnicode) {
  for (unsigned character = 0; character < 0x110000; ++character) {
    const std::string text = encoded(character);
    const bool surrogate = character >= 0xd800 && character < 0xe000;
    ASSERT_EQ(utf8_size(text), surrogate ? 0 : text.size()) << character;
    ASSERT_EQ(utf8_size(text + "\x80"), surrogate ? 0 : text.size()) << character;
    if (text.size() > 1) {
      ASSERT_EQ(utf8_size(text.substr(0, text.size() - 1)), 0) << character;
    }
  }
}

// All sequences of two and three bytes, and those of four at the ends of what their third
// and fourth may be.
TEST(Utf8, HasNoOtherCharacters) {
  std::vector<int> counts(5);
  std::string text(2, '\0');
  const std::string ends = "\x7f\x80\xbf\xc0";
  for (int first = 0x80; first < 0x100; ++first) {
    for (int second = 0; second < 0x100; ++second) {
      text.resize(2);
      text[0] = static_cast<char>(first);
      text[1] = static_cast<char>(second);
      if (utf8_size(text) == 2) ++counts[2];
      for (int third = 0; third < 0x100; ++third) {
        text.resize(3);
        text[2] = static_cast<char>(third);
        if (utf8_size(text) == 3) ++counts[3];
      }
      text.resize(4);
      for (const char third : ends) {
        for (const char fourth : ends) {
          text[2] = third;
          text[3] = fourth;
          if (utf8_size(text) == 4) ++counts[4];
        }
      }
    }
  }
  EXPECT_EQ(counts[2], 0x800 - 0x80);
  EXPECT_EQ(counts[3], 0x10000 - 0x800 - 0x800);
  EXPECT_EQ(counts[4], (0x110000 - 0x10000) / 64 / 64 * 4);
}

TEST(Utf8, BytesOfNoCharacterAreReplaced) {
  EXPECT_EQ(valid_utf8("a\xff"), "a\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8("\xe2\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8("\xc3\xa9\n\""), "\xc3\xa9\n\"");
}

TEST(Utf8, APrefixCutsNoCharacter) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\x88z";
  const std::vector<std::size_t> sizes{0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (std::size_t most = 0; most < sizes.size(); ++most) {
    EXPECT_EQ(utf8_prefix(text, most), text.substr(0, sizes[most])) << most;
  }
  EXPECT_EQ(utf8_prefix("\x80\x80\x80\x80", 2), "\x80\x80");
}

TEST(Messages, MessagesHoldNoBareBytesAndWholeCharacters) {
  EXPECT_EQ(printable("a\x9b"
                      "1m\xff"),
            "a\\x9b1m\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  std::string text(59, 'x');
  EXPECT_EQ(quote(text + "\xc3\xa9"), "'" + text + "...'");
  EXPECT_EQ(quote(text + "y"), "'" + text + "y'");
}

TEST(Messages, NamesOfAMegabyteAreComparedByTheirBeginnings) {
  const std::string tail(1 << 20, 'z');
  EXPECT_EQ(nearest_first("gpipe" + tail, {"1f1b" + tail, "gpipf" + tail}).front(), "gpipf" + tail);
}

}  // namespace
}  // namespace pipesim
