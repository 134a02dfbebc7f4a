# Installs BUILD_DIR, or only its COMPONENT, to PREFIX, made anew.
file(REMOVE_RECURSE ${PREFIX})
set(component "")
if (COMPONENT)
    set(component --component ${COMPONENT})
endif ()
execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=DESTDIR ${CMAKE_COMMAND} --install ${BUILD_DIR} --config "${CONFIG}" --prefix ${PREFIX}
            ${component} COMMAND_ERROR_IS_FATAL ANY)
