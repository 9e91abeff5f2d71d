# What every folder's CMakeLists.txt is written with:
#
#   basalt_library(json DEPENDS base LIBRARIES fmt::fmt)
#
# makes the target `basalt_json` of all *.cc files of the folder (sub-folders named in SUBFOLDERS), and, of its *_test.cc
# files, the test program `json_test`, which ctest runs in the lane `unit` (label). Generated sources are included.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)

option(BASALT_FUZZ "Build the fuzz targets (needs clang)" OFF)
set(BASALT_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(fmt REQUIRED)
find_package(GTest REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_library(BASALT_YAML_LIBRARY yaml REQUIRED)
find_library(BASALT_RE2_LIBRARY re2 REQUIRED)
find_library(BASALT_NGHTTP2_LIBRARY nghttp2 REQUIRED)
find_library(BASALT_SPDLOG_LIBRARY spdlog REQUIRED)

# Objects of an API server are a few hundred small blocks that come and go together (docs/adr/0007-allocator.md).
option(BASALT_TCMALLOC "Allocate by tcmalloc instead of glibc's allocator" OFF)
if(BASALT_TCMALLOC)
  find_library(BASALT_TCMALLOC_LIBRARY libtcmalloc_minimal.a REQUIRED)
  link_libraries(${BASALT_TCMALLOC_LIBRARY})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # What it is lenient about is what precompiled headers ask for (cmake/unity.cmake). What a source includes it learns from the
  # compilation itself instead of reading all headers before it.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion -Wno-sign-conversion
  -fno-omit-frame-pointer -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety -Wno-c99-designator -Wno-missing-field-initializers)
else()
  # g++ 12 reports these for correct code of the standard library when it inlines deeply.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-maybe-uninitialized
    -Wno-missing-field-initializers -Wno-dangling-pointer -Wno-use-after-free -Wno-free-nonheap-object)
endif()
add_compile_definitions(SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL BOOST_ALL_NO_LIB)
if(BASALT_SANITIZE)
  add_compile_options(-fsanitize=${BASALT_SANITIZE} -fno-sanitize-recover=all)
  if(BASALT_SANITIZE MATCHES "undefined")
    # A null pointer that is used is AddressSanitizer's to report, and a check of the type at each call of a virtual function
    # takes more time than any other.
    add_compile_options(-fno-sanitize=null,vptr)
  endif()
  add_link_options(-fsanitize=${BASALT_SANITIZE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(--ld-path=/usr/bin/mold)
else()
  add_link_options(-fuse-ld=mold)
endif()

include_directories(${CMAKE_SOURCE_DIR}/src)

function(basalt_library name)
  cmake_parse_arguments(ARG "" "TEST_SHARDS" "DEPENDS;LIBRARIES;TEST_DEPENDS;TEST_LIBRARIES;SUBFOLDERS" ${ARGN})
  set(patterns *.cc)
  foreach(sub ${ARG_SUBFOLDERS})
    list(APPEND patterns ${sub}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(depends ${ARG_DEPENDS})
  list(TRANSFORM depends PREPEND basalt_)
  if(sources)
    add_library(basalt_${name} STATIC ${sources})
    target_link_libraries(basalt_${name} PUBLIC ${depends} ${ARG_LIBRARIES} Threads::Threads)
  else()
    add_library(basalt_${name} INTERFACE)
    target_link_libraries(basalt_${name} INTERFACE ${depends} ${ARG_LIBRARIES} Threads::Threads)
  endif()
  if(tests)
    set(test_depends ${ARG_TEST_DEPENDS})
    list(TRANSFORM test_depends PREPEND basalt_)
    if(NOT ARG_TEST_SHARDS)
      set(ARG_TEST_SHARDS 1)
    endif()
    basalt_test(${name}_test LANE unit SHARDS ${ARG_TEST_SHARDS} SOURCES ${tests}
      LIBRARIES basalt_${name} ${test_depends} ${ARG_TEST_LIBRARIES})
  endif()
endfunction()

# The longest tests begin first: a lane that starts its longest one last waits for it with one processor idle. ctest learns this
# by itself, but not in a new checkout. The higher number goes first; "100-5": each shard five lower than the one before, so that
# tests which mostly wait run beside some that do not.
set(BASALT_LONG_TESTS scenarios_real_test=95 informer_real_test=78 leader_real_test=49 webhooks_real_test=33 kube_fixture_test=31
  controllers_threads_test=100-5 kube_test=98 controllers_job_test=97 controllers_manager_test=96 scheduler_test=94 admission_test=93
  apiserver_test=92 node_test=88 net_test=87 controllers_datadependency_test=83 apiserver_store_test=78 controllers_sharding_test=77
  sim_test=72 controllers_hyperjob_test=68)

# basalt_test(name LANE unit SOURCES a_test.cc LIBRARIES basalt_x [TIMEOUT seconds] [SHARDS n])
function(basalt_test name)
  cmake_parse_arguments(ARG "" "LANE;TIMEOUT;SHARDS" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    BASALT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" BASALT_BINARY_DIR="${CMAKE_BINARY_DIR}"
    BASALT_KUBE_DIR_DEFAULT="${CMAKE_SOURCE_DIR}/build/kube")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  set(cost 1)
  set(step 0)
  if("${BASALT_LONG_TESTS}" MATCHES "(^|;)${name}=([0-9]+)(-([0-9]+))?")
    set(cost ${CMAKE_MATCH_2})
    if(CMAKE_MATCH_4)
      set(step ${CMAKE_MATCH_4})
    endif()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    if(ARG_SHARDS EQUAL 1)
      set(test ${name})
    else()
      set(test ${name}_${shard})
    endif()
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${test} PROPERTIES LABELS "${ARG_LANE}" TIMEOUT ${ARG_TIMEOUT} COST ${cost}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
    math(EXPR cost "${cost} - ${step}")
  endforeach()
endfunction()

# A fuzz target: fuzz/<name>_fuzz.cc with LLVMFuzzerTestOneInput. Built by the preset `fuzz`; elsewhere the same file is
# linked with a driver that replays the corpus, so that it is a test too.
function(basalt_fuzz name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_LIBRARIES})
  if(BASALT_FUZZ)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name}_fuzz PRIVATE replay_main.cc)
    add_test(NAME ${name}_fuzz_corpus COMMAND ${name}_fuzz ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(${name}_fuzz_corpus PROPERTIES LABELS unit TIMEOUT 120)
  endif()
endfunction()
