# What the tuner is told of a build: tuner.json in the build folder, of the same lists as the build itself.

# "name": "text" without what JSON would want escaped, or a semicolon: names and paths have none.
function(deformkit_json_members result)
    set(members "")
    while (ARGN)
        list(POP_FRONT ARGN name text)
        list(APPEND members "\"${name}\": \"${text}\"")
    endwhile ()
    list(JOIN members ", " members)
    set(${result} "${members}" PARENT_SCOPE)
endfunction()

# Knobs of the passes that deformkit_read_knobs() has read.
function(deformkit_json_knobs result pass)
    set(knobs "")
    foreach (kind SCHEDULE HOST)
        foreach (name IN LISTS DEFORMKIT_${pass}_${kind})
            list(GET DEFORMKIT_${pass}_${name} 0 standard)
            list(GET DEFORMKIT_${pass}_${name} 1 lowest)
            list(GET DEFORMKIT_${pass}_${name} 2 highest)
            string(TOLOWER ${kind} lower)
            deformkit_json_members(members name ${name} kind ${lower})
            string(APPEND knobs ",\n      {${members}, \"standard\": ${standard}, \"lowest\": ${lowest}, \"highest\": ${highest}, "
                   "\"meaning\": \"${DEFORMKIT_${pass}_${name}_MEANING}\"}")
        endforeach ()
    endforeach ()
    string(REGEX REPLACE "^," "" knobs "${knobs}")
    set(${result} "    \"${pass}\": [${knobs}]" PARENT_SCOPE)
endfunction()

function(deformkit_describe_for_tuner)
    if (DEFORMKIT_KERNELS)
        return()  # there are no generators
    endif ()
    set(operators "")
    set(passes "")
    set(knobs "")
    set(generators "")
    set(variants "")
    foreach (row IN LISTS DEFORMKIT_ROWS)
        string(REPLACE , ";" fields ${row})
        list(POP_FRONT fields operator pass type target serves)
        if (NOT TARGET ${operator}_${pass}_${type}_${target} OR DEFORMKIT_TARGET_${target}_GPU)
            continue()  # left out of this build; or a GPU's, which nothing times yet
        endif ()
        if (NOT operator IN_LIST operators)
            list(APPEND operators ${operator})
            deformkit_read_knobs(${operator})
            list(APPEND generators "    \"${operator}\": \"$<TARGET_FILE:deformkit_${operator}_generators>\"")
        endif ()
        if (NOT ${operator}_${pass} IN_LIST passes)
            list(APPEND passes ${operator}_${pass})
            deformkit_json_knobs(text ${operator}_${pass})
            list(APPEND knobs "${text}")
        endif ()
        set(variant ${operator}_${pass}_${type}_${target})
        list(JOIN deformkit_variants_${variant}_PARAMS " " built_with)
        deformkit_json_members(
            members operator ${operator} pass ${pass} type ${type} target ${target} serves ${serves}
            storage_type ${DEFORMKIT_TYPE_${type}} halide_target ${DEFORMKIT_TARGET_${target}_HALIDE}
            lanes ${DEFORMKIT_TARGET_${target}_LANES}
            built_with "${built_with}")
        list(APPEND variants "    {${members}}")
    endforeach ()
    set(autoschedulers "")
    foreach (name Mullapudi2016 Adams2019 Li2018 Anderson2021)
        if (TARGET Halide::${name})
            list(APPEND autoschedulers "    \"${name}\": \"$<TARGET_FILE:Halide::${name}>\"")
        endif ()
    endforeach ()
    foreach (list generators knobs variants autoschedulers)
        list(JOIN ${list} ",\n" ${list})
    endforeach ()
    deformkit_json_members(
        paths source ${PROJECT_SOURCE_DIR} build ${PROJECT_BINARY_DIR} compiler ${CMAKE_CXX_COMPILER} halide_runtime
        $<TARGET_FILE:deformkit_halide_runtime> version ${PROJECT_VERSION})
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tuner.json
         CONTENT "{
  ${paths},
  \"objects\": [\"$<JOIN:$<TARGET_OBJECTS:deformkit_objects>,\", \">\"],
  \"generators\": {\n${generators}\n  },
  \"autoschedulers\": {\n${autoschedulers}\n  },
  \"knobs\": {\n${knobs}\n  },
  \"variants\": [\n${variants}\n  ]
}
")
endfunction()
