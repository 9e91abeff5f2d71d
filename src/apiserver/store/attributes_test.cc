#include "apiserver/store/attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace basalt::apiserver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Attributes, HoldsWhatWasPacked) {
  AttributesWriter writer;
  writer.reset("some-uid");
  writer.add_label("app", "web");
  writer.add_label("empty", "");
  writer.add_field("spec.nodeName", std::string(300, 'n'));
  const Attributes attributes(writer.packed());
  EXPECT_EQ(attributes.uid(), "some-uid");
  EXPECT_EQ(attributes.label("app"), "web");
  EXPECT_EQ(attributes.label("empty"), "");
  EXPECT_EQ(attributes.label("spec.nodeName"), std::nullopt);
  EXPECT_EQ(attributes.field("spec.nodeName"), std::string(300, 'n'));
  EXPECT_EQ(attributes.field("app"), std::nullopt);
  EXPECT_THAT(attributes.labels(), ElementsAre(Pair("app", "web"), Pair("empty", "")));
  EXPECT_EQ(attributes.fields().size(), 1u);
}

TEST(Attributes, AWriterStartsAnew) {
  AttributesWriter writer;
  writer.reset("one");
  writer.add_label("a", "1");
  writer.reset("two");
  EXPECT_EQ(Attributes(writer.packed()).uid(), "two");
  EXPECT_THAT(Attributes(writer.packed()).labels(), IsEmpty());
}

TEST(Attributes, NothingIsFoundInNothing) {
  const Attributes attributes;
  EXPECT_EQ(attributes.uid(), "");
  EXPECT_EQ(attributes.label("a"), std::nullopt);
  EXPECT_THAT(attributes.labels(), IsEmpty());
}

TEST(Attributes, AnyBytesAreSafe) {
  AttributesWriter writer;
  writer.reset("uid");
  writer.add_label("key", "value");
  const std::string whole(writer.packed());
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const Attributes cut(std::string_view(whole).substr(0, size));
    EXPECT_LE(cut.labels().size(), 1u);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string garbled = whole;
      garbled[at] = static_cast<char>(byte);
      const Attributes attributes(garbled);
      EXPECT_LE(attributes.labels().size(), 2u);
      (void)attributes.uid();
    }
  }
}

}  // namespace
}  // namespace basalt::apiserver
