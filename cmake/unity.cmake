# What makes a cold build quick, at the price of a slower one after a change: the presets for work compile file by file.
#
# With BASALT_UNITY the sources of a target are compiled in groups (tools/unity/groups.py says which may go together), which
# takes less than half the time; the headers of the standard library and of GoogleTest are read once for all of them; and the
# tests themselves are not optimised, what they test is.

option(BASALT_UNITY "Compile the sources of each target in groups" OFF)
if(BASALT_UNITY)
  # What ccache asks for to see that a precompiled header which is made anew of the same text is the same one.
  add_compile_options("$<IF:$<CXX_COMPILER_ID:Clang>,SHELL:-Xclang -fno-pch-timestamp,-fpch-preprocess>")
endif()

function(basalt_unity_targets result folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${subfolders})
    basalt_unity_targets(below ${subfolder})
    list(APPEND targets ${below})
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()

set(BASALT_STANDARD_HEADERS <algorithm> <array> <atomic> <charconv> <chrono> <condition_variable> <cstdint> <deque> <filesystem>
  <fstream> <functional> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string> <string_view>
  <unordered_map> <utility> <vector>)

# Where nothing is optimised, clang takes half the time of g++, and what both make fits together.
function(basalt_test_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_SOURCE_DIR}/tools/unity/by-clang;${CMAKE_CXX_COMPILER};${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

# Our libraries that a target is linked with, those of its libraries included.
function(basalt_libraries_of result target)
  set(found)
  set(ahead ${target})
  while(ahead)
    list(POP_FRONT ahead one)
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(libraries ${one} ${property})
      foreach(library ${libraries})
        if(library MATCHES "^basalt_" AND NOT library IN_LIST found)
          list(APPEND found ${library})
          list(APPEND ahead ${library})
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# Of the inline functions that several objects define, the linker takes those of the first. The libraries come before the tests,
# so that the optimised ones are taken: simulations run at three times the speed of unoptimised ones.
function(basalt_link_libraries_first target)
  basalt_libraries_of(libraries ${target})
  if("basalt_json" IN_LIST libraries)  # in the builds with sanitizers it alone is optimised
    list(REMOVE_ITEM libraries basalt_json)
    list(PREPEND libraries basalt_json)
  endif()
  set(files)
  foreach(library ${libraries})
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      string(APPEND files " $<TARGET_FILE:${library}>")
    endif()
  endforeach()
  target_link_options(${target} PRIVATE "SHELL:-Wl,--whole-archive${files} -Wl,--no-whole-archive")
endfunction()

# basalt_precompiled(name header...): a target whose precompiled headers others use.
function(basalt_precompiled name)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# To be called once, when all targets are known.
function(basalt_unity)
  basalt_precompiled(precompiled_for_libraries ${BASALT_STANDARD_HEADERS})
  basalt_precompiled(precompiled_for_tests ${BASALT_STANDARD_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  target_link_libraries(precompiled_for_tests PRIVATE GTest::gtest GTest::gmock)
  basalt_test_options(precompiled_for_tests)
  basalt_unity_targets(targets ${CMAKE_SOURCE_DIR})
  set(request "")
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(STATIC_LIBRARY|EXECUTABLE)$")
      continue()
    endif()
    get_target_property(own_options ${target} COMPILE_OPTIONS)
    if(target MATCHES "_test$")
      basalt_test_options(${target})
      basalt_link_libraries_first(${target})
      target_precompile_headers(${target} REUSE_FROM precompiled_for_tests)
    elseif(NOT own_options MATCHES "-O")
      # A precompiled header serves only what is optimised like itself.
      target_precompile_headers(${target} REUSE_FROM precompiled_for_libraries)
    endif()
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    set(line "${target}")
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
      if(source MATCHES "\\.cc$")
        string(APPEND line " ${source}")
      endif()
    endforeach()
    string(APPEND request "${line}\n")
  endforeach()
  file(WRITE ${CMAKE_BINARY_DIR}/unity-targets.txt "${request}")
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/unity/groups.py ${CMAKE_BINARY_DIR}/unity-targets.txt
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/unity-groups.cmake COMMAND_ERROR_IS_FATAL ANY)
  include(${CMAKE_BINARY_DIR}/unity-groups.cmake)
endfunction()

# basalt_unity_group(target name source...): what the tool's answer is made of.
function(basalt_unity_group target name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${target}_${name})
endfunction()
