# What `cmake --install` puts where, and Debian's packages of it, which
# `cmake --workflow --preset package` makes. Each program is a component of its own, so that a
# package needs what its program needs alone; what components do not list, packages leave out.
set(documents ${CMAKE_INSTALL_DATADIR}/doc)
set(icons ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps)
set(packages)

# pipesim_package(COMPONENT SUMMARY TEXT): a package and its licence.
function(pipesim_package component summary text)
  string(TOUPPER ${component} upper)
  set(package pipesim-${component})
  if(component STREQUAL "pipesim")
    set(package pipesim)
  endif()
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  set(packages ${packages} ${component} PARENT_SCOPE)
  install(FILES LICENSE DESTINATION ${documents}/${package} RENAME copyright
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

pipesim_package(pipesim "Prediction of pipeline-parallel training"
  "pipesim predicts how long an iteration of pipeline-parallel training takes and how\nmuch memory each device needs, by any schedule, model and cluster; it compares\nschedules, plans layouts and says where a measured run differs from a prediction.")
# In folders as here, so that links between them lead somewhere.
foreach(page README.md sim/README.md exec/README.md gui/README.md traces/FORMAT.md
    traces/METRICS.md gui/fonts/LICENSE gui/pictures/both.png gui/pictures/difference.png
    gui/pictures/playground.png)
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${page} DESTINATION ${documents}/pipesim/${folder} COMPONENT pipesim)
endforeach()
install(FILES LICENSE DESTINATION ${documents}/pipesim COMPONENT plain)

if(PIPESIM_EXEC)
  pipesim_package(exec "Pipeline-parallel training, measured"
    "pipeexec trains a real transformer by the schedules that pipesim predicts, over MPI,\nTCP or threads, and records when every action ran and what memory it held.")
  set(CPACK_DEBIAN_EXEC_PACKAGE_RECOMMENDS "openmpi-bin, pipesim")
endif()
if(PIPESIM_HAS_QT)
  pipesim_package(viewer "Viewer of pipeline-parallel timelines"
    "pipeview shows a predicted and a measured timeline of pipesim and pipeexec side by\nside: where they differ, and why.")
  set(CPACK_DEBIAN_VIEWER_PACKAGE_RECOMMENDS "pipesim")
  install(FILES gui/fonts/LICENSE DESTINATION ${documents}/pipesim-viewer RENAME copyright.fonts
    COMPONENT viewer EXCLUDE_FROM_ALL)
  install(FILES gui/pipeview.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications
    COMPONENT viewer)
  install(FILES gui/pipeview.svg DESTINATION ${icons} COMPONENT viewer)
endif()
# What CUDA and HIP themselves need comes from their makers, not from Debian.
foreach(kind cuda hip)
  if(TARGET pipesim_${kind})
    string(TOUPPER ${kind} upper)
    pipesim_package(${kind} "Pipeline-parallel training on GPUs, by ${upper}"
      "The module with which pipeexec trains on GPUs by ${upper}, whose libraries have to be\ninstalled.")
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "pipesim-exec (= ${PROJECT_VERSION})")
  endif()
endforeach()

set(CPACK_DEBIAN_PIPESIM_PACKAGE_SUGGESTS "pipesim-exec, pipesim-viewer")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pipesim)
set(CPACK_PACKAGE_VENDOR "the pipesim authors")
set(CPACK_PACKAGE_CONTACT "the pipesim authors <pipesim@localhost.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${packages})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
