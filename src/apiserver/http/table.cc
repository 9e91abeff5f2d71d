#include "apiserver/http/table.h"

#include "apiserver/registry/metadata.h"
#include "json/value.h"
#include "json/writer.h"

namespace basalt::apiserver {
namespace {

void write_columns(json::Writer& writer, const ResourceType& type) {
  writer.key("columnDefinitions");
  writer.begin_array();
  for (const PrinterColumn& column : type.columns) {
    writer.begin_object();
    writer.key("name");
    writer.string(column.name);
    writer.key("type");
    writer.string(column.type);
    writer.key("format");
    writer.string(column.format);
    writer.key("description");
    writer.string(column.description);
    writer.key("priority");
    writer.integer(column.priority);
    writer.end_object();
  }
  writer.end_array();
}

void write_metadata_object(json::Writer& writer, const json::Value& object, std::string_view version) {
  writer.begin_object();
  writer.key("kind");
  writer.string("PartialObjectMetadata");
  writer.key("apiVersion");
  writer.string("meta.k8s.io/" + std::string(version));
  writer.key("metadata");
  if (const json::Value* metadata = object.find("metadata")) {
    encode(writer, *metadata);
  } else {
    writer.raw("{}");
  }
  writer.end_object();
}

void write_row_object(json::Writer& writer, const json::Value& object, std::string_view text,
                      const TableOptions& options) {
  writer.key("object");
  if (options.include_object == "None") {
    writer.null();
  } else if (options.include_object == "Object") {
    writer.raw(text);
  } else {
    write_metadata_object(writer, object, options.version);
  }
}

}  // namespace

Result<std::string> make_table(const ResourceType& type, std::span<const kube::Bytes> objects,
                               const TableOptions& options) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object();
  writer.key("kind");
  writer.string("Table");
  writer.key("apiVersion");
  writer.string("meta.k8s.io/" + std::string(options.version));
  writer.key("metadata");
  writer.begin_object();
  writer.key("resourceVersion");
  writer.string(options.resource_version);
  if (!options.continue_token.empty()) {
    writer.key("continue");
    writer.string(options.continue_token);
  }
  if (options.remaining_item_count) {
    writer.key("remainingItemCount");
    writer.integer(*options.remaining_item_count);
  }
  writer.end_object();
  if (options.with_columns) {
    write_columns(writer, type);
  } else {
    writer.key("columnDefinitions");
    writer.null();
  }
  writer.key("rows");
  writer.begin_array();
  for (const kube::Bytes& bytes : objects) {
    BASALT_TRY(const json::Value object, json::Value::parse(*bytes));
    writer.begin_object();
    writer.key("cells");
    encode(writer, json::Value(type.strategy->table_cells(object, type.columns, options.now)));
    write_row_object(writer, object, *bytes, options);
    writer.end_object();
  }
  writer.end_array();
  writer.end_object();
  return text;
}

Result<std::string> make_metadata(std::string_view object, std::string_view version) {
  BASALT_TRY(const json::Value value, json::Value::parse(object));
  std::string text;
  json::Writer writer(text);
  write_metadata_object(writer, value, version);
  return text;
}

}  // namespace basalt::apiserver
