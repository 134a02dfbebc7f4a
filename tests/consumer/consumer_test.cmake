# Configures and builds the project in SOURCE_DIR against what is installed in PREFIX, then runs each of EXECUTABLES.
file(REMOVE_RECURSE ${BINARY_DIR})
execute_process(
    COMMAND
        ${CMAKE_COMMAND} -E env CC=${C_COMPILER} CXX=${CXX_COMPILER} CFLAGS=${FLAGS} CXXFLAGS=${FLAGS} ${CMAKE_COMMAND} -S
        ${SOURCE_DIR} -B ${BINARY_DIR} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_PREFIX_PATH=${PREFIX} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY_DIR} COMMAND_ERROR_IS_FATAL ANY)
foreach (executable IN LISTS EXECUTABLES)
    message(STATUS "Running ${executable}")
    execute_process(COMMAND ${BINARY_DIR}/${executable} COMMAND_ERROR_IS_FATAL ANY)
endforeach ()
