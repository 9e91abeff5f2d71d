#include "apiserver/http/accept.h"

#include <gtest/gtest.h>

#include <string>

namespace basalt::apiserver {
namespace {

std::string chosen(std::string_view accept, bool converts = true, bool has_protobuf = false) {
  const auto answer = negotiate(accept, {.converts = converts, .has_protobuf = has_protobuf});
  if (!answer.ok()) return std::to_string(answer.error().code);
  if (answer->is_protobuf) return "protobuf";
  switch (answer->form) {
    case AnswerForm::Object:
      return "object";
    case AnswerForm::Table:
      return "table " + std::string(answer->version);
    case AnswerForm::Metadata:
      return "metadata " + std::string(answer->version);
    case AnswerForm::MetadataList:
      return "list " + std::string(answer->version);
  }
  return "";
}

constexpr std::string_view kTable = "application/json;as=Table;g=meta.k8s.io;v=v1";
constexpr std::string_view kMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
constexpr std::string_view kProtobufMetadata =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

TEST(Accept, WithoutAWishAnObject) {
  EXPECT_EQ(chosen(""), "object");
  EXPECT_EQ(chosen("*/*"), "object");
  EXPECT_EQ(chosen("application/*"), "object");
  EXPECT_EQ(chosen("application/json"), "object");
  EXPECT_EQ(chosen("application/json;stream=watch"), "object");
}

TEST(Accept, TheFirstThatCanBeMet) {
  EXPECT_EQ(chosen(kTable), "table v1");
  EXPECT_EQ(chosen(std::string(kTable) + ",application/json"), "table v1");
  EXPECT_EQ(chosen("application/json," + std::string(kTable)), "object");
  EXPECT_EQ(chosen("application/json;as=Table;v=v1beta1;g=meta.k8s.io"), "table v1beta1");
  EXPECT_EQ(chosen("application/json;as=Table;v=v2;g=meta.k8s.io, " + std::string(kTable)), "table v1");
  EXPECT_EQ(chosen(std::string(kProtobufMetadata) + "," + std::string(kMetadata) + ",application/json"), "metadata v1");
  EXPECT_EQ(chosen("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), "list v1");
  EXPECT_EQ(chosen("application/vnd.kubernetes.protobuf,application/json"), "object");
  EXPECT_EQ(chosen("text/html,application/xhtml+xml,*/*;q=0.8"), "object");
}

TEST(Accept, WeightsComeBeforePlaces) {
  EXPECT_EQ(chosen("application/json;q=0.5," + std::string(kTable)), "table v1");
  EXPECT_EQ(chosen(std::string(kTable) + ";q=0.1,application/json;q=0.25"), "object");
  EXPECT_EQ(chosen("application/json;q=0"), "406");
  EXPECT_EQ(chosen("application/json;q=high"), "406");
}

TEST(Accept, NothingThatCanBeMet) {
  EXPECT_EQ(chosen("text/plain"), "406");
  EXPECT_EQ(chosen("application/vnd.kubernetes.protobuf"), "406");
  EXPECT_EQ(chosen("application/json;stream=other"), "406");
  EXPECT_EQ(chosen("application/json;as=Table;g=other;v=v1"), "406");
  EXPECT_EQ(chosen("application/json;as=Chair;g=meta.k8s.io;v=v1"), "406");
  EXPECT_EQ(chosen("application/json;v=v1;g=meta.k8s.io"), "406");
  EXPECT_EQ(chosen(",;=,"), "406");
}

TEST(Accept, ProtobufForThoseWhoInsist) {
  const std::string protobuf = "application/vnd.kubernetes.protobuf";
  EXPECT_EQ(chosen(protobuf, true, true), "protobuf");
  EXPECT_EQ(chosen(protobuf + ";stream=watch", true, true), "protobuf");
  EXPECT_EQ(chosen("text/html," + protobuf + ";q=0.1", true, true), "protobuf");
  EXPECT_EQ(chosen(protobuf + ",application/json;q=0.1", true, true), "object");
  EXPECT_EQ(chosen(protobuf + ", */*", true, true), "object");
  EXPECT_EQ(chosen(protobuf + ";q=0", true, true), "406");
  EXPECT_EQ(chosen(kProtobufMetadata, true, true), "406");
  EXPECT_EQ(chosen(protobuf, true, false), "406");
}

TEST(Accept, OneOfSeveralMediaTypes) {
  constexpr std::string_view kOffered[] = {"application/json", "application/x", "text/x"};
  const auto place = [&](std::string_view accept) {
    const auto found = choose_media_type(accept, kOffered);
    return found.ok() ? static_cast<int>(*found) : -found.error().code;
  };
  EXPECT_EQ(place(""), 0);
  EXPECT_EQ(place("*/*"), 0);
  EXPECT_EQ(place("text/*, application/json;q=0.9"), 2);
  EXPECT_EQ(place("application/x, application/json"), 1);
  EXPECT_EQ(place("application/x;q=0.1, application/json;q=0.2"), 0);
  EXPECT_EQ(place("application/y, application/x;a=b"), 1);
  EXPECT_EQ(place("application/x;q=0"), -406);
  EXPECT_EQ(place("app/*, image/png"), -406);
}

TEST(Accept, WhatCannotBeConverted) {
  EXPECT_EQ(chosen(kTable, false), "406");
  EXPECT_EQ(chosen(kMetadata, false), "406");
  EXPECT_EQ(chosen(std::string(kTable) + ",application/json", false), "object");
}

}  // namespace
}  // namespace basalt::apiserver
