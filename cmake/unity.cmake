# With BASALT_UNITY the sources of a target are compiled in groups (tools/unity/groups.py says which may go together): a cold
# build then takes less than half the time. The presets for work compile file by file.

option(BASALT_UNITY "Compile the sources of each target in groups" OFF)

function(basalt_unity_targets result folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${subfolders})
    basalt_unity_targets(below ${subfolder})
    list(APPEND targets ${below})
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()

# To be called once, when all targets are known.
function(basalt_unity)
  basalt_unity_targets(targets ${CMAKE_SOURCE_DIR})
  set(request "")
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(STATIC_LIBRARY|EXECUTABLE)$")
      continue()
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
