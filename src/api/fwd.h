#pragma once

namespace basalt::json {
class Reader;
class Writer;
}  // namespace basalt::json

namespace basalt::api {

class FieldSelector;
class IntOrString;
class MicroTime;
class Quantity;
class ResourceList;
class Selector;
class StringMap;
class Time;
struct Duration;
struct ObjectKey;
struct Requirement;

}  // namespace basalt::api

namespace basalt::api::meta {

struct Condition;
struct LabelSelector;
struct ObjectMeta;
struct OwnerReference;

}  // namespace basalt::api::meta
