process DHSIC_TEST {
    tag "$meta.id"
    label 'process_medium'

    conda "${moduleDir}/environment.yml"
    container "${ workflow.containerEngine in ['singularity', 'apptainer'] && !task.ext.singularity_pull_docker_container ?
        'https://depot.galaxyproject.org/singularity/dhsic:0.1.0--pyhdfd78af_0' :
        'quay.io/biocontainers/dhsic:0.1.0--pyhdfd78af_0' }"

    input:
    tuple val(meta), path(data), path(companions), path(labels), path(covariates)
    val target

    output:
    tuple val(meta), path("${prefix}.tsv"), emit: tsv
    tuple val(meta), path("${prefix}.log"), emit: log
    tuple val("${task.process}"), val('dhsic'), eval("dhsic --version | sed 's/.* //'"), topic: versions, emit: versions_dhsic

    when:
    task.ext.when == null || task.ext.when

    script:
    def args           = task.ext.args ?: ''
    def labels_arg     = labels ? "--labels ${labels}" : ''
    def covariates_arg = covariates ? "--covariates ${covariates}" : ''
    def memory_arg     = task.memory ? "--memory ${task.memory.toMega()}MiB" : ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    dhsic test \\
        ${data} \\
        ${labels_arg} \\
        ${covariates_arg} \\
        --target ${target} \\
        --threads ${task.cpus} \\
        ${memory_arg} \\
        --out ${prefix}.tsv \\
        ${args} \\
        2> >(tee ${prefix}.log >&2)
    """

    stub:
    def args = task.ext.args ?: ''
    prefix = task.ext.prefix ?: "${meta.id}"
    """
    echo "${args}"
    touch ${prefix}.tsv
    touch ${prefix}.log
    """
}
